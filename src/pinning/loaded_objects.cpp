// SPDX-License-Identifier: Apache-2.0
#include "pinning/loaded_objects.hpp"

#include <link.h>

namespace rondo::detail {
namespace {

int collect(dl_phdr_info* object, std::size_t /*bytes*/, void* names) {
    // The program itself, and the kernel's vdso on some systems, have no name.
    if (object->dlpi_name != nullptr && *object->dlpi_name != '\0') {
        static_cast<std::vector<std::string>*>(names)->emplace_back(object->dlpi_name);
    }
    return 0;
}

}  // namespace

std::vector<std::string> loaded_objects() {
    std::vector<std::string> names;
    // The linker holds its lock meanwhile: collect only, and open nothing inside.
    ::dl_iterate_phdr(collect, &names);
    return names;
}

}  // namespace rondo::detail
