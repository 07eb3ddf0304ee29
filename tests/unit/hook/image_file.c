/* Prints for each file whether its code may print, as a file and as an image in memory: image_file CAPABILITY FILE...
 * (CAPABILITY: of the only device, such as 90; 0: any). */
#include <stdio.h>
#include <stdlib.h>

#include "shim/base/file.h"
#include "shim/hook/image.h"

int main(int count, char **words) {
    struct gm_capabilities devices = {0};
    if (count < 3)
        return 2;
    devices.of[0] = (uint16_t)atoi(words[1]);
    devices.count = devices.of[0] != 0;
    for (int i = 2; i < count; i++) {
        size_t size;
        const char *image = gm_file_map(words[i], &size);
        if (!image)
            return 1;
        printf("%d%d ", gm_image_file_prints(words[i], &devices), gm_image_prints(image, &devices));
    }
    printf("\n");
    return 0;
}
