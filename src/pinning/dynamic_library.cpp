// SPDX-License-Identifier: Apache-2.0
#include "pinning/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <mutex>

namespace rondo::detail {

namespace {

/// One at a time. The loader's own lock orders what it writes about a library before what any later
/// opener reads of it (`file`), but nobody who checks that, such as TSan, sees into the loader.
void* open_library(const std::string& name, int mode) {
    static std::mutex mutex;
    const std::lock_guard lock{mutex};
    return ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
}

}  // namespace

tl::expected<DynamicLibrary, std::string> DynamicLibrary::open(const std::string& name) {
    // Loaded already, under this name or as this soname: that one, whatever a search would find.
    if (void* const loaded = open_library(name, RTLD_NOLOAD)) return DynamicLibrary{loaded};
    if (void* const handle = open_library(name, 0)) return DynamicLibrary{handle};
    const char* const error = ::dlerror();
    return tl::unexpected<std::string>{error != nullptr ? error : "dlopen failed without a reason"};
}

tl::expected<DynamicLibrary, std::string> DynamicLibrary::find_loaded(const std::string& name) {
    if (void* const handle = open_library(name, RTLD_NOLOAD)) return DynamicLibrary{handle};
    return tl::unexpected<std::string>{"it is not loaded any more"};
}

void* DynamicLibrary::symbol(const char* name) const noexcept {
    return ::dlsym(handle_, name);
}

std::string DynamicLibrary::file() const {
    link_map* map = nullptr;
    if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) {
        return {};
    }
    return map->l_name;
}

}  // namespace rondo::detail
