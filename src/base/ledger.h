/*
 * The memory of a process: bytes that hold samples, by their user. All share half of the memory that the process may
 * use.
 *
 *     loaders   batches, scratch and reserves of each loader, served ones too (engine/budget.h), and the batches that
 *               readers of a port copy together
 *     workers   slots that are shared with worker processes (worker/share.h)
 *     blocks    of files that were decoded or read ahead (io/blocks.h)
 *     photos    that were decoded for several loaders (op/decoded.h)
 *
 * Blocks and photos give way: while all together use more than is allowed, blocks are dropped down to a quarter of
 * their cache, and photos as others are to be added.
 *
 * The ledger counts; it waits for nothing and gives nothing back. Any thread may call these functions.
 */
#ifndef LEAT_BASE_LEDGER_H
#define LEAT_BASE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum leat_memory_user { LEAT_OF_LOADERS = 0, LEAT_OF_WORKERS, LEAT_OF_BLOCKS, LEAT_OF_PHOTOS, LEAT_MEMORY_USERS };

void leat_ledger_take(enum leat_memory_user user, uint64_t bytes);
void leat_ledger_give(enum leat_memory_user user, uint64_t bytes);
/* In a forked child, for memory that stayed in the parent. */
void leat_ledger_forget(enum leat_memory_user user);

uint64_t leat_ledger_used(enum leat_memory_user user);
/* The limit for all of them: half of leat_memory_allowed, as it was when the ledger was last opened. */
uint64_t leat_ledger_allowed(void);
/* Asks the system again how much the process may use. */
void leat_ledger_open(void);
/* Whether loaders and workers may take `bytes` more. */
bool leat_ledger_fits(uint64_t bytes);
/* Whether all together use more than is allowed. */
bool leat_ledger_is_over(uint64_t more);

#endif
