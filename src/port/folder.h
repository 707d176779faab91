/*
 * The places of ports: each is a socket NAME.port in a folder, with a file NAME.lock beside it that the port's process
 * holds a lock on as long as it lives. A socket whose lock nobody holds is of a process that died, and is replaced.
 */
#ifndef LEAT_PORT_FOLDER_H
#define LEAT_PORT_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "leat/leat.h"

#define LEAT_FOLDER_PATH 256

/* INVALID: no name of a port. */
int leat_folder_check_name(const char *name, struct leat_error *error);
/* Whether somebody has named the folder: `given`, or the environment. */
bool leat_folder_is_named(const char *given);
/* The folder: `given`, or the user's. INVALID: the path is too long. */
int leat_folder_path(const char *given, char path[LEAT_FOLDER_PATH], struct leat_error *error);
/* The same, absolute, for the working directory may change: as long as the path of the socket of `name`, a valid one,
 * has room for that. */
int leat_folder_kept(const char *given, const char *name, char path[LEAT_FOLDER_PATH], struct leat_error *error);
/* The address of a port. INVALID: the path is too long for a socket. */
int leat_folder_address(const char *given, const char *name, struct sockaddr_un *address, struct leat_error *error);
/* A group by its name or number. NOT_FOUND. NULL: -1. */
int leat_folder_group(const char *name, gid_t *group, struct leat_error *error);

/* A port's place, while it is open. */
struct leat_place {
    int lock, socket; /* the socket listens; -1 */
    struct sockaddr_un address;
    char lock_path[LEAT_FOLDER_PATH + 80];
};
/* Makes the folder if it is missing, takes the name and listens. EXISTS: the port of a process that lives; IO. */
int leat_place_take(const char *folder, const char *name, gid_t group, struct leat_place *out,
                    struct leat_error *error);
/* Removes both names. */
void leat_place_leave(struct leat_place *place);
/* A connection. NOT_FOUND: no such port, or its process is dead; IO: not allowed, another user's (neither ours nor
 * root's) in a folder that was not named, or there are no descriptors. */
int leat_place_connect(const char *folder, const char *name, int *fd, struct leat_error *error);

#endif
