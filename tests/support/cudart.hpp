// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <vector>

namespace rondo::test {

using CudaStream = struct CudaStreamTag*;  ///< cudaStream_t

/// CUDA's runtime, to ask it about rondo's memory: it owes nothing to rondo's own search and table.
///
/// Never closed. Copies share the library. Codes are those of the runtime, 0 is success.
struct Cudart {
    std::string file;  ///< where the loader found it
    int devices = 0;

    int (*get_device_count)(int* count) = nullptr;
    int (*runtime_version)(int* version) = nullptr;
    int (*driver_version)(int* version) = nullptr;
    int (*host_get_flags)(unsigned* flags, const void* memory) = nullptr;
    int (*host_alloc)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
    int (*free_host)(void* memory) = nullptr;
    int (*malloc)(void** memory, std::size_t bytes) = nullptr;
    int (*free)(void* memory) = nullptr;
    int (*memcpy_async)(void* to, const void* from, std::size_t bytes, int kind,
                        CudaStream stream) = nullptr;
    int (*stream_create)(CudaStream* stream, unsigned flags) = nullptr;
    int (*stream_synchronize)(CudaStream stream) = nullptr;
    int (*stream_destroy)(CudaStream stream) = nullptr;
    int (*get_last_error)() = nullptr;

    static constexpr int host_to_device = 1;
    static constexpr int device_to_host = 2;
    static constexpr unsigned non_blocking = 1;  ///< cudaStreamNonBlocking
    static constexpr unsigned portable = 1;      ///< cudaHostAllocPortable

    /// The library that RONDO_TEST_CUDART names, else the system's. Errors: why there is none with
    /// a device, a sentence.
    [[nodiscard]] static tl::expected<Cudart, std::string> open() {
        const char* const wanted = std::getenv("RONDO_TEST_CUDART");
        const std::vector<std::string> names =
            wanted != nullptr
                ? std::vector<std::string>{wanted}
                : std::vector<std::string>{"libcudart.so.13", "libcudart.so.12", "libcudart.so",
                                           "/usr/local/cuda/lib64/libcudart.so"};
        std::string reasons;
        for (const auto& name : names) {
            auto opened = open(name);
            if (opened) return opened;
            reasons += (reasons.empty() ? "" : "; ") + name + ": " + opened.error();
        }
        return tl::unexpected{"no CUDA device can be used (" + reasons +
                              "); RONDO_TEST_CUDART may name a libcudart"};
    }

    /// Whether the runtime knows the byte as page-locked.
    [[nodiscard]] bool locked(const void* byte) const {
        unsigned flags = 0;
        const bool known = host_get_flags(&flags, byte) == 0;
        if (!known) get_last_error();
        return known;
    }

private:
    [[nodiscard]] static tl::expected<Cudart, std::string> open(const std::string& name) {
        void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return tl::unexpected<std::string>{"it cannot be opened"};
        Cudart cudart;
        std::string missing;
        const auto find = [&]<typename Function>(const char* symbol, Function& function) {
            function = reinterpret_cast<Function>(::dlsym(library, symbol));
            if (function == nullptr) missing = symbol;
        };
        find("cudaGetDeviceCount", cudart.get_device_count);
        find("cudaRuntimeGetVersion", cudart.runtime_version);
        find("cudaDriverGetVersion", cudart.driver_version);
        find("cudaHostGetFlags", cudart.host_get_flags);
        find("cudaHostAlloc", cudart.host_alloc);
        find("cudaFreeHost", cudart.free_host);
        find("cudaMalloc", cudart.malloc);
        find("cudaFree", cudart.free);
        find("cudaMemcpyAsync", cudart.memcpy_async);
        find("cudaStreamCreateWithFlags", cudart.stream_create);
        find("cudaStreamSynchronize", cudart.stream_synchronize);
        find("cudaStreamDestroy", cudart.stream_destroy);
        find("cudaGetLastError", cudart.get_last_error);
        if (!missing.empty()) return tl::unexpected{"it lacks " + missing};
        if (const int code = cudart.get_device_count(&cudart.devices); code != 0) {
            return tl::unexpected{"cudaGetDeviceCount says " + std::to_string(code)};
        }
        if (cudart.devices == 0) return tl::unexpected<std::string>{"it sees no device"};
        link_map* map = nullptr;
        if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) cudart.file = map->l_name;
        return cudart;
    }
};

}  // namespace rondo::test
