# The CUDA toolkit: find one, or make one of NVIDIA's PyPI wheels. Sourced by tools/setup.

# True when the folder holds cuda.h of CUDA 13.0 or newer.
is_toolkit() {
    local header=$1/include/cuda.h
    [ -r "$header" ] && [ "$(sed -n 's/^#define CUDA_VERSION  *\([0-9]*\).*/\1/p' "$header" | head -n 1)" -ge 13000 ] \
        2>/dev/null
}

# Prints the folder of an installed toolkit; nothing when there is none.
installed_toolkit() {
    local folder
    for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-13* /opt/cuda; do
        if [ -n "$folder" ] && is_toolkit "$folder"; then
            echo "$folder"
            return
        fi
    done
}

# True when the folder was made of the wheels that are wanted now.
is_wheel_toolkit() { cmp -s "$root/tools/lib/cuda-wheels.txt" "$1/wheels.txt"; }

# Puts the wheels' parts into one folder that looks like an installed toolkit. The wheels lack two links that the compiler
# driver and -lcudart expect.
wheel_toolkit() {
    local target=$1 stage=$1.new
    rm -rf "$stage"
    venv_make || return
    quietly "$build/.setup-pip.log" cuda "$venv/bin/pip" install -q --retries 1 --timeout 30 --no-deps --target "$stage" \
        -r "$root/tools/lib/cuda-wheels.txt" || return
    ln -s lib "$stage/nvidia/cu13/lib64"
    ln -s libcudart.so.13 "$stage/nvidia/cu13/lib/libcudart.so"
    cp "$root/tools/lib/cuda-wheels.txt" "$stage/nvidia/cu13/wheels.txt"
    rm -rf "$target"
    mv "$stage/nvidia/cu13" "$target"
    rm -rf "$stage"
}
