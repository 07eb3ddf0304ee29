/* Asks for memory in functions with names of C++, without debug information: a member of a class template with many
 * arguments, an operation, and its dispatcher. */
int cudaMalloc(int size);

#define TEN                                                                                                          \
    "N2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEN2at6TensorEiN" \
    "2at6TensorE"

int wrapped(int size) __asm__("_ZN4made28wrap_kernel_functor_unboxed_IJ" TEN TEN TEN "EE4callEi");
int operation(int size) __asm__("_ZN2at6native5emptyEi");
int dispatched(int size) __asm__("_ZN3c1010Dispatcher4callEi");

int wrapped(int size) { return cudaMalloc(size) + 1; }
int operation(int size) { return cudaMalloc(size) + 1; }
int dispatched(int size) { return operation(size) + 1; }

int main(void) { return wrapped(1) + dispatched(2) == 0; }
