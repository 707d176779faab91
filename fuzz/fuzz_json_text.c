/* JSON that is walked through: it is accepted exactly if Jansson accepts it, and numbers and texts are the same. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Compares a value with the tree; false: a fault. */
static bool same(struct leat_json *j, const json_t *tree)
{
    double number;
    bool whole;
    int64_t found = 0;
    size_t length, n = 0;
    char key[64];
    const char *text;
    switch (leat_json_peek(j)) {
    case '{':
        leat_json_enter(j, '{');
        for (; leat_json_key(j, key, sizeof key); n++)
            leat_json_skip(j);
        if (tree && !j->fault && !json_is_object(tree))
            abort();
        return !j->fault;
    case '[':
        leat_json_enter(j, '[');
        for (; leat_json_item(j); n++)
            if (!same(j, json_array_get(tree, n)))
                return false;
        if (tree && !j->fault && (!json_is_array(tree) || json_array_size(tree) != n))
            abort();
        return !j->fault;
    case '0':
        if (!leat_json_read_number(j, &number, &whole, &found))
            return false;
        if (tree && (json_is_real(tree) ? number != json_real_value(tree)
                                        : whole && found != (int64_t)json_integer_value(tree)))
            abort();
        return true;
    case '"':
        if (!(text = leat_json_string(j, &length)))
            return false;
        if (tree && (!json_is_string(tree) || strcmp(text, json_string_value(tree)) != 0))
            abort();
        return true;
    default:
        return leat_json_skip(j);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_io_file *file;
    struct leat_json json;
    struct leat_error error;
    json_error_t why;
    if (memchr(data, 'N', size) || memchr(data, 'I', size) || memchr(data, 0, size))
        return 0; /* NaN and Infinity are numbers here; Jansson takes a NUL for the end */
    size_t mark = size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3) ? 3 : 0; /* passed over here, refused by Jansson */
    json_t *tree = json_loadb((const char *)data + mark, size - mark, JSON_DECODE_ANY, &why);
    if (leat_io_from_memory("memory", data, size, &file, NULL))
        return 0;
    leat_json_begin(&json, file, &error);
    same(&json, tree);
    int rc = leat_json_end(&json);
    /* Jansson refuses numbers that are too large, and this one objects that are nested deeper than LEAT_JSON_DEPTH. */
    if (!rc != !!tree && !(rc && strstr(error.message, "nested")) && !(!rc && strstr(why.text, "too big")) &&
        !(!rc && strstr(why.text, "real number overflow")))
        abort();
    json_decref(tree);
    leat_io_release(file);
    return 0;
}
