/* Names of classes in YAML: never a crash, and never a name that is none. */
#include <stdlib.h>
#include <string.h>

#include "format/yolo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_yolo_yaml yaml;
    if (!leat_yolo_yaml(data, size, &yaml))
        return 0;
    for (size_t i = 0; i < yaml.names.n; i++)
        if (strlen(yaml.names.at[i]) > size)
            abort();
    leat_yolo_yaml_clear(&yaml);
    return 0;
}
