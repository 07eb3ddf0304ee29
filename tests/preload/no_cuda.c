/* A program that never uses CUDA: no CUDA library is loaded and no other thread exists. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return -1;
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static int drivers_mapped(void) {
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        return -1;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/libcuda.so") != NULL || strstr(line, "/libcudart.so") != NULL;
    fclose(maps);
    return count;
}

int main(void) {
    printf("ok no_cuda threads %d drivers %d\n", threads(), drivers_mapped());
    return 0;
}
