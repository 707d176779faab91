/* ToLayout: the order of the axes of an image in its output. */
#include "op/operator.h"

struct layout_args {
    enum leat_ask ask;
};

static void parse(void *into, struct leat_args *json)
{
    static const char *const words[] = {"NCHW", "NHWC", "channels_last", NULL};
    struct layout_args *args = into;
    unsigned word;
    leat_args_word(json, "layout", words, 3, &word);
    if (word == 3)
        leat_args_wrong(json, "layout", "\"NCHW\", \"NHWC\" or \"channels_last\"");
    args->ask = word == 0 ? LEAT_ASK_NCHW : word == 1 ? LEAT_ASK_NHWC : LEAT_ASK_CHANNELS_LAST;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    type->ask = ((const struct layout_args *)from)->ask;
    return LEAT_OK;
}

const struct leat_op_class leat_op_to_layout = {.type = "ToLayout",
                                                .input = LEAT_INPUT_IMAGE,
                                                .args_bytes = sizeof(struct layout_args),
                                                .parse = parse,
                                                .infer = infer};
