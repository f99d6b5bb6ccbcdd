// Batches of cases in worker processes. A worker that dies leaves the stage it was in without a result: that becomes the case's result, and
// a new worker goes on with the rest of the batch.
#include "conform.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    pid_t pid; // 0: none
    int first, n, phase;
} Worker;

static void out_of_memory(void) {
    fputs("conform: out of memory\n", stderr);
    _exit(EXIT_LIMIT);
}

static bool start(Conform *c, Worker *w) {
    fflush(NULL);
    w->pid = fork();
    if (w->pid < 0) return false;
    if (w->pid > 0) return true;
    mem_set_oom_handler(out_of_memory);
    (w->phase == 1 ? conform_phase1 : conform_phase2)(c, w->first, w->n);
    fflush(NULL);
    _exit(0);
}

static void death_text(char *text, size_t n, int status) {
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGALRM)
        snprintf(text, n, "took too long");
    else if (sig)
        snprintf(text, n, "crashed: %s", strsignal(sig));
    else
        snprintf(text, n, "ended with exit status %d", WEXITSTATUS(status));
}

// Blames the stages that had begun and have no result; true when there was one.
static bool blame(Conform *c, const Worker *w, int status) {
    char text[128];
    bool found = false;
    death_text(text, sizeof text, status);
    for (int i = w->first; i < w->first + w->n; i++) {
        CaseState *s = &c->state[i];
        if (!s->begun[STAGE_EVAL]) continue;
        // In phase 1 a case whose C was emitted waits for phase 2.
        bool llvm = s->begun[STAGE_LLVM] && c->stages[STAGE_LLVM] && s->result[STAGE_LLVM].kind == RESULT_NONE;
        bool before = s->begun[STAGE_C] && !s->begun[STAGE_LLVM] && s->result[STAGE_LLVM].kind == RESULT_NONE;
        bool eval = !s->begun[STAGE_C] && s->result[STAGE_EVAL].kind == RESULT_NONE;
        bool in_c = w->phase == 2 && s->emitted && s->begun[STAGE_C] && s->result[STAGE_C].kind == RESULT_NONE;
        if (w->phase == 1 ? !llvm && !before && !eval : !in_c) continue;
        for (int k = 0; k < STAGE_COUNT; k++) {
            if (s->result[k].kind != RESULT_NONE || (k == STAGE_C && s->emitted && w->phase == 1)) continue;
            result_set(&s->result[k], RESULT_FAIL, text);
        }
        found = true;
        if (w->phase == 2) break; // the first one without a result was running
    }
    return found;
}

// What the worker does next: the same phase again after a crash, the second phase, or nothing.
static bool advance(Conform *c, Worker *w, int status) {
    bool died = !WIFEXITED(status) || WEXITSTATUS(status);
    if (died && blame(c, w, status)) return true;
    if (died) fprintf(stderr, "conform: a worker ended outside of any case (status %d)\n", status);
    return w->phase++ == 1 && c->stages[STAGE_C];
}

void conform_run(Conform *c) {
    Worker *workers = mem_realloc(NULL, sizeof *workers * (size_t)c->jobs);
    memset(workers, 0, sizeof *workers * (size_t)c->jobs);
    int next = 0, running = 0;
    for (;;) {
        for (int k = 0; k < c->jobs && next < c->ncases; k++) {
            if (workers[k].pid) continue;
            int n = c->ncases - next < c->batch ? c->ncases - next : c->batch;
            workers[k] = (Worker){.first = next, .n = n, .phase = 1};
            if (!start(c, &workers[k])) break;
            next += n;
            running++;
        }
        if (!running) break;
        int status;
        pid_t pid = wait(&status);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) break;
        for (int k = 0; k < c->jobs; k++) {
            if (workers[k].pid != pid) continue;
            workers[k].pid = 0;
            if (advance(c, &workers[k], status) && start(c, &workers[k])) continue;
            running--;
        }
    }
    mem_realloc(workers, 0);
}
