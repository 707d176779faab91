/* LIKE and GLOB for queries: the results of SQLite's own, in time that is bounded by the lengths of text and
 * pattern. */
#ifndef LEAT_DATA_QUERY_LIKE_H
#define LEAT_DATA_QUERY_LIKE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Replaces both in a connection. `look` is called now and then with `user`, and ends the call if it says so. A code of
 * SQLite's. */
struct leat_query_look {
    int (*look)(void *user);
    void *user;
};
int leat_query_like_add(sqlite3 *db, struct leat_query_look *look); /* which outlives the connection */

#endif
