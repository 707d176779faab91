/*
 * Putting the photos of a group that are in the fast form together again, which verifying a file does beyond
 * leat_store_check_group: that one may run over mapped memory because it allocates nothing, and putting together
 * allocates.
 */
#ifndef LEAT_STORE_RESTORE_H
#define LEAT_STORE_RESTORE_H

#include "store/check.h"
#include "store/growing.h"

/* `p`: a group as leat_store_check_group takes it, mapped. A photo that does not give back the file that it was made
 * from is added to `faults`; one that was found damaged already is passed over. `buffer` is the thread's. IO: the
 * mapping faulted; NOMEM. */
int leat_store_restore_photos(struct leat_growing *buffer, const struct leat_store_layout *layout, const uint8_t *p,
                              const struct leat_store_group *group, const struct leat_store_shape *shape,
                              struct leat_store_faults *faults, struct leat_error *error);

#endif
