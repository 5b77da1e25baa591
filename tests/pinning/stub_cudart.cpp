// SPDX-License-Identifier: Apache-2.0
// Stands in for libcudart. RONDO_STUB_WITHOUT_FLAGS: the one that lacks a symbol.
#include "stub.hpp"

#include <set>

namespace {

stub::PerThread current;
stub::PerThread last_error;

/// As in CUDA 12: whatever needs a context makes one on the thread's device.
void make_context() {
    static auto& contexts = *new std::set<int>;
    bool made = false;
    {
        const std::lock_guard lock{stub::mutex()};
        made = contexts.insert(current).second;
    }
    if (made) stub::record("context", "", 0, current);
}

int finish(const char* function, const std::string& arguments, int code) {
    if (code != 0) last_error = code;
    stub::record(function, arguments, code, current);
    return code;
}

int begin(const char* function) {
    stub::block_first_call();
    return stub::wanted_failure(function);
}

}  // namespace

RONDO_STUB_EXPORT int cudaGetDeviceCount(int* count) {
    const int code = begin("cudaGetDeviceCount");
    *count = code == 0 ? stub::devices() : 0;
    return finish("cudaGetDeviceCount", "", code);
}

RONDO_STUB_EXPORT int cudaGetDevice(int* device) {
    *device = current;
    return finish("cudaGetDevice", "", begin("cudaGetDevice"));
}

RONDO_STUB_EXPORT int cudaSetDevice(int device) {
    int code = begin("cudaSetDevice");
    if (code == 0 && (device < 0 || device >= stub::devices())) code = 101;
    if (code == 0) {
        current = device;
        make_context();
    }
    return finish("cudaSetDevice", "to=" + std::to_string(device), code);
}

RONDO_STUB_EXPORT int cudaFree(void* memory) {
    const int code = begin("cudaFree");
    make_context();
    std::free(memory);
    return finish("cudaFree", memory == nullptr ? "memory=null" : "memory=some", code);
}

RONDO_STUB_EXPORT int cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
    int code = begin("cudaHostRegister");
    if (code == 0) code = stub::registrations().add(memory, bytes);
    make_context();
    std::ostringstream arguments;
    arguments << "memory=" << memory << " bytes=" << bytes << " flags=" << flags
              << " resident=" << stub::resident(memory, bytes);
    return finish("cudaHostRegister", arguments.str(), code);
}

RONDO_STUB_EXPORT int cudaHostUnregister(void* memory) {
    int code = begin("cudaHostUnregister");
    if (code == 0) code = stub::registrations().remove(memory);
    make_context();
    std::ostringstream arguments;
    arguments << "memory=" << memory << " mapped=" << stub::resident(memory, 1);
    return finish("cudaHostUnregister", arguments.str(), code);
}

#ifndef RONDO_STUB_WITHOUT_FLAGS
RONDO_STUB_EXPORT int cudaHostGetFlags(unsigned* flags, void* memory) {
    int code = begin("cudaHostGetFlags");
    const auto byte = reinterpret_cast<std::uintptr_t>(memory);
    if (code == 0 && !stub::registrations().contains(byte)) code = 1;
    *flags = code == 0 ? 1 : 0;
    std::ostringstream arguments;
    arguments << "memory=" << memory;
    return finish("cudaHostGetFlags", arguments.str(), code);
}
#endif

RONDO_STUB_EXPORT int cudaGetLastError() {
    const int code = last_error;
    last_error = 0;
    stub::record("cudaGetLastError", "", code, current);
    return code;
}

RONDO_STUB_EXPORT const char* cudaGetErrorName(int code) {
    switch (code) {
        case 0:
            return "cudaSuccess";
        case 1:
            return "cudaErrorInvalidValue";
        case 2:
            return "cudaErrorMemoryAllocation";
        case 4:
            return "cudaErrorCudartUnloading";
        case 35:
            return "cudaErrorInsufficientDriver";
        case 100:
            return "cudaErrorNoDevice";
        case 712:
            return "cudaErrorHostMemoryAlreadyRegistered";
        case 713:
            return "cudaErrorHostMemoryNotRegistered";
        case 801:
            return "cudaErrorNotSupported";
        default:
            return "cudaErrorUnknown";
    }
}

RONDO_STUB_EXPORT int cudaRuntimeGetVersion(int* version) {
    *version = 12'040;
    return 0;
}
