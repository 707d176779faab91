/* Functions on any consumer for a caller that signals may interrupt. */
#ifndef LEAT_ENGINE_INTERRUPT_H
#define LEAT_ENGINE_INTERRUPT_H

#include "leat/leat.h"

/* Waits as leat_consumer_next would, with the same errors, but hands nothing out, so that a caller can look for signals
 * before the batch is its own. After LEAT_OK (or END) a call of leat_consumer_next has the batch (or END) at once, if
 * no other one comes between. `*at_hand`: it only has to be taken. Else (out of order) it may have to be put together,
 * for which there may be no memory: that call then waits. */
int leat_consumer_await(struct leat_consumer *consumer, uint64_t iteration, int64_t timeout_ms, bool *at_hand,
                        struct leat_error *error);
/* The batch that the last leat_consumer_next handed out was given to nobody: the reader goes back to its position of
 * before, and makes it anew. False: it cannot (out of order, beside further consumers, a reader of a port), or
 * something was decided or moved since. */
bool leat_consumer_put_back(struct leat_consumer *consumer);
/* As leat_loader_interrupt: makes a leat_consumer_next or _await that waits, or helps, return LEAT_E_CANCELLED. Any
 * thread. */
void leat_consumer_interrupt(struct leat_consumer *consumer);

#endif
