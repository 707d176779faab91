/*
 * Records that were left out on the way to a file: what opening a text leaves out goes into the metadata of the pack
 * that is made of it, under "skipped", and is shown where a data set is described.
 *
 *     {"records": 5, "on_open": 3, "tokenising": 2,
 *      "first": [{"file": "web.jsonl", "line": 7, "byte": 812, "reason": "..."}, ...]}
 */
#include "left_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

enum { LISTED = 10, SHOWN = 3 };

json_t *cli_left_out(const struct leat_dataset *dataset)
{
    json_t *metadata = json_loads(leat_dataset_metadata(dataset), 0, NULL),
           *skipped = json_object_get(metadata, "skipped");
    if (!json_is_integer(json_object_get(skipped, "records")) || !json_is_array(json_object_get(skipped, "first")))
        skipped = NULL; /* the user's own */
    json_incref(skipped);
    json_decref(metadata);
    return skipped;
}

/* What opening has left out, with what the metadata say already; NULL: it was nothing. */
static json_t *add_opened(const struct leat_dataset *dataset)
{
    char *text = NULL;
    if (leat_dataset_about(dataset, &text, NULL))
        return NULL;
    json_t *about = json_loads(text, 0, NULL), *one, *before = cli_left_out(dataset), *first = json_array(),
           *said = json_object_get(about, "skipped_first");
    json_t *found = NULL;
    size_t i;
    const json_int_t opened = json_integer_value(json_object_get(about, "skipped")),
                     on_open = json_integer_value(json_object_get(before, "on_open")) + opened,
                     tokenising = json_integer_value(json_object_get(before, "tokenising"));
    leat_free(text);
    if (json_array_size(said)) { /* those of text; annotations have a report of their own */
        json_array_foreach(json_object_get(before, "first"), i, one) json_array_append(first, one);
        json_array_foreach(said, i, one)
        {
            const char *path = json_string_value(json_object_get(one, "file")),
                       *slash = path ? strrchr(path, '/') : NULL;
            if (slash)
                json_object_set_new(one, "file", json_string(slash + 1));
            if (json_array_size(first) < LISTED)
                json_array_append(first, one);
        }
        found = json_pack("{sI sI sI sO}", "records", on_open + tokenising, "on_open", on_open, "tokenising",
                          tokenising, "first", first);
    }
    json_decref(first);
    json_decref(before);
    json_decref(about);
    return found;
}

char *cli_metadata_left_out(const struct leat_dataset *dataset, const char *metadata)
{
    json_t *found = add_opened(dataset), *object = found ? json_loads(metadata, 0, NULL) : NULL;
    char *text = NULL;
    if (json_is_object(object)) { /* else the writer says what is wrong with it */
        json_object_set(object, "skipped", found);
        text = json_dumps(object, JSON_COMPACT);
    }
    json_decref(object);
    json_decref(found);
    return text;
}

void cli_print_left_out(const json_t *left_out)
{
    static const char *const names[] = {"file", "line", "byte", "row", "record"};
    char a[32], b[32], clean[600];
    const json_t *first = json_object_get(left_out, "first"), *one;
    const json_int_t on_open = json_integer_value(json_object_get(left_out, "on_open")),
                     tokenising = json_integer_value(json_object_get(left_out, "tokenising"));
    size_t i;
    if (!left_out)
        return;
    printf("%s records when this was made: %s of the source were broken, %s could not be tokenised\n",
           cli_count((uint64_t)(on_open + tokenising), clean), cli_count((uint64_t)on_open, a),
           cli_count((uint64_t)tokenising, b));
    json_array_foreach(first, i, one)
    {
        if (i == SHOWN) {
            printf("  ...\n");
            break;
        }
        const char *comma = "";
        printf("  ");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const json_t *value = json_object_get(one, names[k]);
            if (json_is_string(value))
                printf("%s%s", comma, leat_escape(json_string_value(value), clean, sizeof clean));
            else if (json_is_integer(value))
                printf("%s%s %" JSON_INTEGER_FORMAT, comma, names[k], json_integer_value(value));
            comma = value ? ", " : comma;
        }
        const char *reason = json_string_value(json_object_get(one, "reason"));
        printf(": %s\n", leat_escape(reason ? reason : "", clean, sizeof clean));
    }
}
