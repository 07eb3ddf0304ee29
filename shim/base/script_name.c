#include "shim/base/script_name.h"

#include "shim/base/base.h"

#include <string.h>

bool gm_script_name(const char *words, size_t length, char *out, size_t size) {
    for (const char *word = words + strlen(words) + 1; word < words + length; word += strlen(word) + 1) {
        const char *slash = strrchr(word, '/');
        bool module = !strcmp(word, "-m");
        if (!strcmp(word, "-c") || !strcmp(word, "-"))
            return false;
        bool option = *word == '-';
        if (module || !strcmp(word, "-W") || !strcmp(word, "-X"))
            word += strlen(word) + 1; /* the word behind it belongs to it */
        if (word < words + length && *word && (module || !option)) {
            gm_format(out, size, "%s", slash && !option ? slash + 1 : word);
            return true;
        }
    }
    return false;
}
