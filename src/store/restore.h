/*
 * Restores the original files of a group's photos in the fast form, to verify them. It is apart from
 * leat_store_check_group, which allocates nothing and so may run over mapped memory.
 */
#ifndef LEAT_STORE_RESTORE_H
#define LEAT_STORE_RESTORE_H

#include "store/check.h"
#include "store/growing.h"

/* `p`: a mapped group, as for leat_store_check_group. A photo that does not give back its original file is added to
 * `faults`; one already found damaged is skipped. `buffer` is the thread's. IO: the mapping faulted; NOMEM. */
int leat_store_restore_photos(struct leat_growing *buffer, const struct leat_store_layout *layout, const uint8_t *p,
                              const struct leat_store_group *group, const struct leat_store_shape *shape,
                              struct leat_store_faults *faults, struct leat_error *error);

#endif
