/* Any text is either a stack or a one-line error: gm_resource_build never crashes, reads past its text or writes past
 * the error. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/resource/stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t error_size = size ? 1 + data[0] : 1;
    char *text = malloc(size + 1), *error = malloc(error_size);
    if (size)
        memcpy(text, data + 1, size - 1);
    text[size ? size - 1 : 0] = '\0';
    error[0] = '\0';
    struct gm_resource *top = gm_resource_build(text, error, error_size);
    if (!top && error_size > 1 && (!error[0] || strlen(error) >= error_size || strchr(error, '\n')))
        abort();
    for (struct gm_resource *at = top; at; at = at->upstream)
        if (!at->ops || at->ops->adaptor != (at->upstream != NULL) || at->ops->two != (at->second != NULL))
            abort();
    gm_stack_discard(top);
    free(error);
    free(text);
    return 0;
}
