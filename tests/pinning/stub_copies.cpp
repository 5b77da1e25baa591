// SPDX-License-Identifier: Apache-2.0
// The part of the stand-in for libcudart that rondo does not use, but those who look at its memory
// do: "device memory" is the heap, and every copy is done at once.
#include "stub.hpp"

#include <cstring>

RONDO_STUB_EXPORT int cudaDriverGetVersion(int* version) {
    *version = 12'080;
    return 0;
}

RONDO_STUB_EXPORT int cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    return stub::registrations().add(*memory, bytes);
}

RONDO_STUB_EXPORT int cudaFreeHost(void* memory) {
    const int code = stub::registrations().remove(memory);
    if (code == 0) std::free(memory);
    return code;
}

RONDO_STUB_EXPORT int cudaMalloc(void** memory, std::size_t bytes) {
    *memory = std::malloc(bytes);
    return 0;
}

RONDO_STUB_EXPORT int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind,
                                      void*) {
    if (kind != 1 && kind != 2) return 21;  // cudaErrorInvalidMemcpyDirection
    std::memcpy(to, from, bytes);
    return 0;
}

RONDO_STUB_EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned) {
    *stream = std::malloc(1);
    return 0;
}

RONDO_STUB_EXPORT int cudaStreamSynchronize(void*) {
    return 0;
}

RONDO_STUB_EXPORT int cudaStreamDestroy(void* stream) {
    std::free(stream);
    return 0;
}
