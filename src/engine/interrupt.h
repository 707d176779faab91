/* A function that the public header offers for loaders only. */
#ifndef LEAT_ENGINE_INTERRUPT_H
#define LEAT_ENGINE_INTERRUPT_H

#include "leat/leat.h"

/* As leat_loader_interrupt: makes a leat_consumer_next that waits, or helps, return LEAT_E_CANCELLED. Any thread. */
void leat_consumer_interrupt(struct leat_consumer *consumer);

#endif
