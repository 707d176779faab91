/* Functions on any consumer for a caller that signals may interrupt. */
#ifndef LEAT_ENGINE_INTERRUPT_H
#define LEAT_ENGINE_INTERRUPT_H

#include "leat/leat.h"

/* Waits as leat_consumer_next would, with the same errors, but hands nothing out: after LEAT_OK (or END) a call of that
 * has its batch (or END) at once, unless another thread was before it. So a caller looks for signals in between, and
 * none finds it with a batch that nobody was given. */
int leat_consumer_await(struct leat_consumer *consumer, uint64_t iteration, int64_t timeout_ms,
                        struct leat_error *error);
/* As leat_loader_interrupt: makes a leat_consumer_next or _await that waits, or helps, return LEAT_E_CANCELLED. Any
 * thread. */
void leat_consumer_interrupt(struct leat_consumer *consumer);

#endif
