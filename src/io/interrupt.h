/*
 * For waits on other events than a read: in slices of time, after each of which, without any lock, it asks whether it
 * was interrupted (leat_set_interrupt).
 */
#ifndef LEAT_IO_INTERRUPT_H
#define LEAT_IO_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>

/* False: the slice is over, and it was not woken. */
bool leat_io_wait_slice(pthread_cond_t *cond, pthread_mutex_t *lock);
bool leat_io_interrupted(void);

#endif
