/*
 * A worker must not outlive the process that it works for, whatever it is doing: one thread of it waits for that
 * process's end, and ends the worker. It needs no lock of an interpreter, so that a function that never returns cannot
 * hold it up; and no name or pipe that a killed process could have left in a wrong state.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "base/error.h"
#include "worker/worker.h"

static void *watch(void *descriptor)
{
    struct pollfd p = {.fd = (int)(intptr_t)descriptor, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(1);
}

int leat_worker_watch(int pidfd, struct leat_error *error)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    int rc = pthread_create(&thread, &attributes, watch, (void *)(intptr_t)pidfd);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc)
        return LEAT_OK;
    errno = rc;
    return leat_fail_errno(error, LEAT_E_NOMEM, "cannot start the thread that watches the parent process");
}
