/* Threads of the process that gather rows, kept between calls. */
#ifndef LEAT_DEVICE_THREADS_H
#define LEAT_DEVICE_THREADS_H

/* Calls work(arg) in this thread, and meanwhile in up to `more` others; returns when all that have begun are done. One
 * that is busy or cannot be started is one fewer: `work` by this thread alone must do all that is left. Any thread. */
void leat_threads_run(unsigned more, void (*work)(void *arg), void *arg);

#endif
