/* The program's data file has the number of standard error, or standard error leads to it again. Arguments: the file;
 * "back": at the end standard error is what it was. */
#include <cuda_runtime_api.h>
#include <fcntl.h>

#include "program.h"

static void add(const char *text) { EXPECT(write(STDERR_FILENO, text, strlen(text)) == (ssize_t)strlen(text)); }

int main(int count, char **words) {
    void *block;
    int before = count > 2 ? dup(STDERR_FILENO) : -1;
    close(STDERR_FILENO);
    EXPECT(open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600) == STDERR_FILENO);
    add("first\n");
    MUST(cudaMalloc(&block, 1 << 20));
    MUST(cudaFree(block));
    add("second\n");
    if (before >= 0)
        EXPECT(dup2(before, STDERR_FILENO) == STDERR_FILENO);
    printf("ok other_stderr\n");
    return 0;
}
