/* Memory of the host that the driver has pinned and mapped where it lies. */
#ifndef LEAT_DEVICE_PIN_H
#define LEAT_DEVICE_PIN_H

#include <stdbool.h>

#include "device/driver.h"

struct leat_pin;

/* Pins memory, or counts one more user of memory that is pinned already. False: the driver refuses. `*pin` is NULL of
 * memory that somebody else has pinned, who keeps it so as long as it is there. A context is current. Any thread. */
bool leat_pin_take(const struct leat_cuda *cuda, const void *data, uint64_t bytes, struct leat_pin **pin,
                   leat_cu_memory *at);
/* The last user's ends it: nothing reads it any more. NULL is allowed. */
void leat_pin_give(const struct leat_cuda *cuda, struct leat_pin *pin);

#endif
