/*
 * The holders of memory that one process owns and others map: the parts of it that they read or write. Each of them has
 * a row, and writes there the offsets of the parts that it holds.
 *
 *     row 0   | process 4711 | 0x1000 | 0x9000 |        |        |
 *     row 1   | process 4712 | 0x9000 |        |        |        |
 *     row 2   | nobody       |
 *
 * A process whose row is full goes on in another one. Taking a reference is one store, and so is letting go: a process
 * that is killed between any two instructions leaves a row that says exactly what it held, and no count that is off by
 * one. The owner counts its own references as it likes; when the last is gone it asks here whether anybody else has
 * one, and takes back those of the dead. As with any count, a reference may be taken only while another one is known to
 * last.
 */
#ifndef LEAT_BASE_HOLDERS_H
#define LEAT_BASE_HOLDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEAT_HOLDER_ROOM 61 /* references in a row, which then has 512 bytes */

struct leat_holder {
    _Atomic uint64_t who;                    /* process (32 bits) | when it began (32 bits); 0: nobody */
    _Atomic uint32_t more;                   /* number of the row in which its process goes on, + 1; 0: there is none */
    _Atomic uint32_t number;                 /* of this row */
    _Atomic uint64_t top;                    /* entries from here on were not used by it: mostly it holds few */
    _Atomic uint64_t held[LEAT_HOLDER_ROOM]; /* offset + 1; 0: free */
};

struct leat_holders {
    uint32_t n;
    _Atomic uint32_t used; /* rows from here on were never taken */
    struct leat_holder rows[];
};

/* Bytes of a table of n rows; zeroed memory with its `n` set is an empty one. */
size_t leat_holders_bytes(uint32_t n);

/* A row for this process, which stays valid in it until it leaves; those of dead processes are used again. NULL: there
 * is none. Any process and thread; a forked child joins for itself. */
struct leat_holder *leat_holders_join(struct leat_holders *table);
void leat_holder_leave(struct leat_holder *row); /* NULL is allowed */
/* Takes and gives back a reference to the part that begins at `offset`. False: no row of the table is free for it.
 * Threads of its process. */
bool leat_holder_hold(struct leat_holder *row, uint64_t offset);
void leat_holder_drop(struct leat_holder *row, uint64_t offset);

/* The owner: whether a process that is alive holds something that begins in [begin, end). Parts that dead ones held are
 * taken back. */
bool leat_holders_have(struct leat_holders *table, uint64_t begin, uint64_t end);

#endif
