/*
 * Whole reads and writes at a place of a file, however often the system does a part of one. Each returns the bytes that
 * it has done: fewer than wanted if a call failed, whose errno is left, or (errno 0) if the file ends or takes no more.
 * Any thread.
 */
#ifndef LEAT_BASE_TRANSFER_H
#define LEAT_BASE_TRANSFER_H

#include <stdint.h>

uint64_t leat_read_at(int fd, void *to, uint64_t bytes, uint64_t at);
uint64_t leat_write_at(int fd, const void *from, uint64_t bytes, uint64_t at);

#endif
