/*
 * Output for a person: errors, sizes, durations, values as text.
 */
#ifndef LEAT_CLI_PRINT_H
#define LEAT_CLI_PRINT_H

#include <stdarg.h>
#include <stdio.h>

#include <jansson.h>

#include "args.h"
#include "leat/leat.h"

/* One line on standard error, "leat COMMAND: ...". */
void cli_say(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_say_list(const struct cli_command *command, const char *format, va_list list);

/* Reports a file that could not be written, and the remedy if the disk is full. */
void cli_say_unwritten(const struct cli_command *command, const char *path, int sys_errno);
/* The remedy if such an error means that a file cannot get longer, such as "; make room on the disk", else "". */
const char *cli_if_full(int sys_errno);

/* Prints an error of the library with its place. `hint` (may be NULL) is a second line. Returns the exit code that
 * fits: CLI_EXIT_FAULTS if data at rest are at fault, CLI_EXIT_INTERRUPTED, else CLI_EXIT_FAILED. */
int cli_fail(const struct cli_command *command, const struct leat_error *error, const char *hint);

/* The place of an error, as "FILE: sample 3, field image, byte 77: " or as much of it as there is. */
void cli_place(const struct leat_error *error, char *out, size_t room);
/* An error as a line for a terminal: the place, each part of it once, and the message. */
void cli_error_text(const struct leat_error *error, char *out, size_t room);

/* If standard output is a terminal, the output from here on replaces the text shown. */
void cli_redraw(void);

/* Columns that UTF-8 text takes in a terminal: two of a wide character, none of a combining one. */
int cli_columns(const char *text);
/* The argument of printf's "%-*s", which counts bytes, to pad the text to so many columns. */
int cli_padded(const char *text, int columns);

/* "1.4 GB", decimal; "2 h 05 min"; "1,234,567". Each returns `out`. */
const char *cli_bytes(uint64_t bytes, char out[32]);
const char *cli_duration(double seconds, char out[32]);
const char *cli_count(uint64_t n, char out[32]);

/* "float32[?, 4]", "image", "int64". */
const char *cli_field_type(const struct leat_field *field, char *out, size_t room);

/* Element `i` of an array as a double; *text is set instead if a double would lose digits (64-bit integers). */
void cli_print_element(FILE *out, enum leat_dtype dtype, const void *data, size_t i);
double cli_element(enum leat_dtype dtype, const void *data, size_t i);

/* A word as a shell needs it: quoted if it must be. */
void cli_print_shell(FILE *out, const char *word);

/* Says that tars have no end, behind their number. */
#define CLI_ENDLESS "without the zeros that mark the end: left out by the writer, or cut off between two files"

/* The index of a field by its name, or -1. */
int cli_field(const struct leat_dataset *dataset, const char *name);
/* Says that a data set has no field of a name, the one that may be meant, and those that it has. */
void cli_say_no_field(const struct cli_command *command, const struct leat_dataset *dataset, const char *path,
                      const char *name);
/* The names of its fields, cut to fit. Returns `out`. */
const char *cli_fields_list(const struct leat_dataset *dataset, char *out, size_t room);

/* 32 hexadecimal digits. Returns `out`. */
const char *cli_fingerprint(const struct leat_dataset *dataset, char out[33]);

/* A number of an object; 0 if it is not there. A whole one is 0 if it is negative. */
double cli_real(const json_t *object, const char *key);
uint64_t cli_whole(const json_t *object, const char *key);

/* The JSON that the library has made, whose text it releases. NULL of NULL. */
json_t *cli_taken(char *text);
/* The result of leat_dataset_about; NULL: there is none. */
json_t *cli_about(const struct leat_dataset *dataset);

/* A text from outside, such as a path: escaped where it is not UTF-8, of which JSON is made. */
json_t *cli_json_text(const char *text);

/* Prints and releases an object. */
void cli_print_json(json_t *object);

/* A file as text, NUL-terminated and freed with free; NULL after a message. */
char *cli_read_text(const struct cli_command *command, const char *path, size_t *length);

/* A program of a loader, as leat.program_to_json writes it; otherwise as cli_read_text. */
char *cli_read_program(const struct cli_command *command, const char *path);

/* Whether no field has encoded values of another kind than photos. */
bool cli_encodes_photos_alone(const struct leat_dataset *dataset);

/* Photos that are stored as pixels, and other values that are stored decoded, cannot be packed again, because what they
 * were made from is gone. Returns true for such, after a message. */
bool cli_refuse_decoded(const struct cli_command *command, const struct leat_dataset *dataset, const char *path);

/* Opens a data set; `options` may be NULL. After a message it returns NULL. */
struct leat_dataset *cli_open(const struct cli_command *command, const char *path,
                              const struct leat_open_options *options, int *exit_code);

/* Prints how many boxes are not as they should be, of an object of counts (docs/cli.md): `before`, then "2 reach out of
 * their image, 1 have no area or are inverted". False: none are, and nothing is printed. */
bool cli_print_box_faults(const char *before, const json_t *counts);

#endif
