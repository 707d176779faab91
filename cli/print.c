/*
 * Text for a person. Names of files and fields come from outside, so whatever is printed to a terminal is cleaned of
 * control characters first.
 */
#include "print.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <jansson.h>

void cli_say_list(const struct cli_command *command, const char *format, va_list list)
{
    char *text = NULL;
    fflush(stdout);
    int n = vasprintf(&text, format, list);
    fprintf(stderr, "leat %s: ", command->name);
    for (char *line = n < 0 ? NULL : text, *next; line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        size_t room = 4 * strlen(line) + 1;
        char *clean = malloc(room);
        fprintf(stderr, "%s\n", clean ? leat_escape(line, clean, room) : "");
        free(clean);
    }
    free(text);
}

void cli_say(const struct cli_command *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    cli_say_list(command, format, list);
    va_end(list);
}

const char *cli_if_full(int sys_errno)
{
    if (sys_errno == ENOSPC || sys_errno == EDQUOT)
        return "; make room on the disk";
    return sys_errno == EFBIG
               ? "; raise the limit of the size of files (ulimit -f), or write to a file system that takes "
                 "larger ones"
               : "";
}

void cli_say_unwritten(const struct cli_command *command, const char *path, int sys_errno)
{
    cli_say(command, "%s could not be written: %s%s.", path, strerror(sys_errno), cli_if_full(sys_errno));
}

void cli_redraw(void)
{
    const char *terminal = getenv("TERM");
    if (isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0)
        printf("\033[H\033[J");
}

int cli_columns(const char *text)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", 0), before = utf8 ? uselocale(utf8) : 0;
    mbstate_t state = {0};
    int columns = 0;
    for (size_t left = strlen(text); left;) {
        wchar_t c;
        size_t n = mbrtowc(&c, text, left, &state);
        int width = n - 1 < left ? wcwidth(c) : -1; /* invalid bytes take a column each */
        if (n - 1 >= left)
            state = (mbstate_t){0};
        n = n - 1 < left ? n : 1;
        columns += width >= 0 ? width : 1;
        text += n;
        left -= n;
    }
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return columns;
}

int cli_padded(const char *text, int columns)
{
    int taken = cli_columns(text);
    return (int)strlen(text) + (columns > taken ? columns - taken : 0);
}

void cli_place(const struct leat_error *error, char *out, size_t room)
{
    char name[1200] = "";
    size_t used = 0;
    const char *separator = "";
    if (!room)
        return;
    out[0] = 0;
    if (error->file[0]) {
        used += (size_t)snprintf(out, room, "%s: ", leat_escape(error->file, name, sizeof name));
        if (used >= room)
            return;
    }
    size_t start = used;
    if (error->sample != LEAT_NO_SAMPLE) {
        used += (size_t)snprintf(out + used, room - used, "sample %" PRId64, error->sample);
        separator = ", ";
    }
    if (error->field[0] && used < room) {
        used += (size_t)snprintf(out + used, room - used, "%sfield %s", separator,
                                 leat_escape(error->field, name, sizeof name));
        separator = ", ";
    }
    if (error->offset != LEAT_NO_OFFSET && used < room)
        used += (size_t)snprintf(out + used, room - used, "%sbyte %" PRId64, separator, error->offset);
    if (used > start && used < room)
        snprintf(out + used, room - used, ": ");
}

static const char *past(const char *text, const char *beginning)
{
    const size_t n = strlen(beginning);
    return n > 2 && !strncmp(text, beginning, n) ? text + n : text;
}

/* The message without the place that it begins with. */
static const char *without_place(const struct leat_error *error)
{
    char file[sizeof error->file + 2], sample[128];
    snprintf(file, sizeof file, "%s: ", error->file);
    snprintf(sample, sizeof sample, "sample %" PRId64 ", field \"%s\": ", error->sample, error->field);
    return past(past(error->message, file), sample);
}

static bool says_byte(const char *message, int64_t offset)
{
    char words[40];
    const int n = snprintf(words, sizeof words, "byte %" PRId64, offset);
    const char *found = strstr(message, words);
    return found && !(found[n] >= '0' && found[n] <= '9');
}

void cli_error_text(const struct leat_error *error, char *out, size_t room)
{
    char place[2048], message[2048];
    struct leat_error said = *error;
    /* The message often names the byte or the file itself; each is then said once. */
    if (says_byte(error->message, error->offset))
        said.offset = LEAT_NO_OFFSET;
    cli_place(&said, place, sizeof place);
    bool named = error->file[0] && strstr(error->message, error->file);
    if (named && error->sample == LEAT_NO_SAMPLE && said.offset == LEAT_NO_OFFSET)
        place[0] = 0;
    leat_escape(place[0] ? without_place(error) : error->message, message, sizeof message);
    snprintf(out, room, "%s%s", place, message[0] ? message : leat_status_text(error->code));
}

int cli_fail(const struct cli_command *command, const struct leat_error *error, const char *hint)
{
    char text[4096];
    cli_error_text(error, text, sizeof text);
    cli_say(command, "%s", text);
    if (hint)
        fprintf(stderr, "%s\n", hint);
    if (error->code == LEAT_E_CANCELLED)
        return CLI_EXIT_INTERRUPTED;
    return error->code == LEAT_E_CORRUPT || error->code == LEAT_E_DECODE ? CLI_EXIT_FAULTS : CLI_EXIT_FAILED;
}

const char *cli_bytes(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(out, 32, "%" PRIu64 " bytes", bytes);
        return out;
    }
    double number = (double)bytes;
    size_t unit = 0;
    for (number /= 1000; number >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        number /= 1000;
    snprintf(out, 32, "%.1f %s", number, units[unit]);
    return out;
}

const char *cli_duration(double seconds, char out[32])
{
    if (!(seconds >= 0) || seconds > 359999999)
        snprintf(out, 32, "?");
    else if (seconds < 0.9995)
        snprintf(out, 32, "%.0f ms", seconds * 1e3);
    else if (seconds < 9.95)
        snprintf(out, 32, "%.1f s", seconds);
    else if (seconds < 90)
        snprintf(out, 32, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(out, 32, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(out, 32, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    return out;
}

const char *cli_count(uint64_t n, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

const char *cli_field_type(const struct leat_field *field, char *out, size_t room)
{
    if (field->kind != LEAT_KIND_ARRAY) {
        snprintf(out, room, "%s", leat_kind_name(field->kind));
        return out;
    }
    size_t used = (size_t)snprintf(out, room, "%s", leat_dtype_name(field->dtype));
    for (unsigned d = 0; d < field->ndim && d < LEAT_MAX_DIMS && used < room; d++) {
        const char *before = d ? ", " : "[";
        if (field->shape[d] < 0)
            used += (size_t)snprintf(out + used, room - used, "%s?", before);
        else
            used += (size_t)snprintf(out + used, room - used, "%s%" PRId64, before, field->shape[d]);
    }
    if (field->ndim && used < room)
        used += (size_t)snprintf(out + used, room - used, "]");
    if (field->layout && used < room)
        snprintf(out + used, room - used, " %s", field->layout == LEAT_LAYOUT_HWC ? "HWC" : "CHW");
    return out;
}

static float from_half(uint16_t bits)
{
    unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
    float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return exponent ? sign * ldexpf((float)(fraction + 1024), (int)exponent - 25) : sign * ldexpf((float)fraction, -24);
}

static float from_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Reads one element without assuming alignment. */
#define ELEMENT(type, name)                                                                                            \
    type name;                                                                                                         \
    memcpy(&name, (const char *)data + i * sizeof name, sizeof name)
#define CASE(dtype, type, number)                                                                                      \
    case dtype: {                                                                                                      \
        ELEMENT(type, v);                                                                                              \
        return (double)(number);                                                                                       \
    }

double cli_element(enum leat_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
        CASE(LEAT_U8, uint8_t, v)
        CASE(LEAT_BOOL, uint8_t, v)
        CASE(LEAT_I8, int8_t, v)
        CASE(LEAT_U16, uint16_t, v)
        CASE(LEAT_I16, int16_t, v)
        CASE(LEAT_U32, uint32_t, v)
        CASE(LEAT_I32, int32_t, v)
        CASE(LEAT_U64, uint64_t, v)
        CASE(LEAT_I64, int64_t, v)
        CASE(LEAT_F16, uint16_t, from_half(v))
        CASE(LEAT_BF16, uint16_t, from_bfloat(v))
        CASE(LEAT_F32, float, v)
        CASE(LEAT_F64, double, v)
    }
    return 0;
}

void cli_print_element(FILE *out, enum leat_dtype dtype, const void *data, size_t i)
{
    if (dtype == LEAT_U64) {
        ELEMENT(uint64_t, v);
        fprintf(out, "%" PRIu64, v);
    } else if (dtype == LEAT_I64) {
        ELEMENT(int64_t, v);
        fprintf(out, "%" PRId64, v);
    } else if (dtype == LEAT_BOOL) {
        fputs(((const uint8_t *)data)[i] ? "true" : "false", out);
    } else {
        /* Digits enough to give the same number back. */
        int digits = dtype == LEAT_F64    ? 17
                     : dtype == LEAT_F32  ? 9
                     : dtype == LEAT_BF16 ? 4
                     : dtype == LEAT_F16  ? 5
                                          : 10;
        const double v = cli_element(dtype, data, i);
        if (isfinite(v))
            fprintf(out, "%.*g%s", digits, v, v == 0 && signbit(v) ? ".0" : ""); /* -0 is a whole number of JSON */
        else
            fputs(isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity", out);
    }
}

void cli_print_shell(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

int cli_field(const struct leat_dataset *dataset, const char *name)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(fields[i].name, name))
            return (int)i;
    return -1;
}

const char *cli_fields_list(const struct leat_dataset *dataset, char *out, size_t room)
{
    size_t n, used = 0;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    out[0] = 0;
    for (size_t i = 0; i < n && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", fields[i].name);
    return out;
}

void cli_say_no_field(const struct cli_command *command, const struct leat_dataset *dataset, const char *path,
                      const char *name)
{
    char list[1024];
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    const char **names = calloc(n + 1, sizeof *names);
    for (size_t i = 0; names && i < n; i++)
        names[i] = fields[i].name;
    const char *near = names ? leat_nearest(name, names, n) : NULL;
    cli_fields_list(dataset, list, sizeof list);
    if (near)
        cli_say(command, "%s has no field \"%s\": did you mean \"%s\"? It has %s.", path, name, near, list);
    else
        cli_say(command, "%s has no field \"%s\": it has %s.", path, name, list);
    free(names);
}

const char *cli_fingerprint(const struct leat_dataset *dataset, char out[33])
{
    uint8_t bytes[16];
    leat_dataset_fingerprint(dataset, bytes);
    for (size_t i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return out;
}

double cli_real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

uint64_t cli_whole(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t whole = json_is_integer(value) ? json_integer_value(value) : (json_int_t)json_number_value(value);
    return whole > 0 ? (uint64_t)whole : 0;
}

json_t *cli_taken(char *text)
{
    json_t *made = json_loads(text, 0, NULL);
    leat_free(text);
    return made;
}

json_t *cli_about(const struct leat_dataset *dataset)
{
    char *text = NULL;
    return leat_dataset_about(dataset, &text, NULL) ? NULL : cli_taken(text);
}

json_t *cli_json_text(const char *text)
{
    char clean[4 * PATH_MAX];
    json_t *made = json_string(text);
    return made ? made : json_string(leat_escape(text, clean, sizeof clean));
}

void cli_print_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(object);
}

char *cli_read_text(const struct cli_command *command, const char *path, size_t *length)
{
    char *text = NULL;
    size_t used = 0, room = 0;
    FILE *file = fopen(path, "rb");
    if (!file) {
        cli_say(command, "%s: %s.", path, strerror(errno));
        return NULL;
    }
    for (;;) {
        if (used + 1 >= room) {
            room = room ? room * 2 : 65536;
            char *more = room <= (size_t)1 << 30 ? realloc(text, room) : NULL;
            if (!more) {
                cli_say(command, "%s is larger than a file of this kind can be.", path);
                goto fail;
            }
            text = more;
        }
        size_t n = fread(text + used, 1, room - used - 1, file);
        used += n;
        if (!n)
            break;
    }
    if (ferror(file)) {
        cli_say(command, "%s cannot be read: %s.", path, strerror(errno));
        goto fail;
    }
    fclose(file);
    text[used] = 0;
    if (length)
        *length = used;
    return text;
fail:
    fclose(file);
    free(text);
    return NULL;
}

char *cli_read_program(const struct cli_command *command, const char *path)
{
    char *text = cli_read_text(command, path, NULL);
    json_error_t where;
    json_t *program = text ? json_loads(text, JSON_DECODE_ANY, &where) : NULL;
    if (!text || json_is_object(program)) {
        json_decref(program);
        return text;
    }
    if (json_is_string(program)) /* json.dump of what is JSON already */
        cli_say(command,
                "%s holds a program as a text within JSON: write leat.program_to_json(outputs) there as it is.", path);
    else if (program)
        cli_say(command, "%s is no program: it is no JSON object. Save leat.program_to_json(outputs) there.", path);
    else
        cli_say(command, "%s is no JSON (line %d: %s). Save leat.program_to_json(outputs) there.", path, where.line,
                where.text);
    json_decref(program);
    free(text);
    return NULL;
}

bool cli_encodes_photos_alone(const struct leat_dataset *dataset)
{
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    for (size_t i = 0; i < n; i++) /* encoded kinds stand behind the plain ones */
        if (fields[i].kind > LEAT_KIND_JSON && fields[i].kind != LEAT_KIND_IMAGE)
            return false;
    return true;
}

bool cli_refuse_decoded(const struct cli_command *command, const struct leat_dataset *dataset, const char *path)
{
    json_t *about = cli_about(dataset);
    bool raw = json_object_get(json_object_get(about, "photos"), "raw") != NULL;
    json_decref(about);
    size_t n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    for (size_t i = 0; i < n; i++)
        raw = raw && !(fields[i].flags & LEAT_FIELD_PIXELS); /* those were never files */
    if (raw && cli_encodes_photos_alone(dataset))
        cli_say(
            command,
            "%s holds photos as pixels (it was packed with --photos raw), not the files that they were made from: name "
            "the folder or file "
            "with those. Where they are gone, leat cat gives each photo as a PPM, which can be made a PNG and packed.",
            path);
    else if (raw)
        cli_say(command,
                "%s holds decoded values (it was packed with --photos raw), not those that they were made from: name "
                "the folder or file with those.",
                path);
    return raw;
}

struct leat_dataset *cli_open(const struct cli_command *command, const char *path,
                              const struct leat_open_options *options, int *exit_code)
{
    struct leat_dataset *dataset = NULL;
    struct leat_error error;
    if (!leat_dataset_open(path, options, &dataset, &error))
        return dataset;
    *exit_code = cli_fail(command, &error, NULL);
    return NULL;
}

bool cli_print_box_faults(const char *before, const json_t *counts)
{
    static const struct {
        const char *key, *what;
    } kinds[] = {{"cut", "reach out of their image"},
                 {"outside", "lie outside of it"},
                 {"empty", "have no area or are inverted"},
                 {"not_finite", "are not finite"},
                 {"tiny", "have a side below a pixel"}};
    char count[32];
    bool any = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const json_int_t n = json_integer_value(json_object_get(counts, kinds[i].key));
        if (n > 0)
            printf("%s%s %s", any ? ", " : before, cli_count((uint64_t)n, count), kinds[i].what);
        any |= n > 0;
    }
    return any;
}
