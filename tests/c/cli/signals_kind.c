/* The command with a toy kind of samples beside its own. */
#include "../signals.h"

__attribute__((constructor)) static void take_kind(void)
{
    signal_kind(NULL);
}
