// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tl/expected.hpp>

#include <string>

namespace rondo::detail {

/// A shared library that is open and stays so: it has no way to close. Its symbols are not offered
/// to libraries loaded later. A value; thread-safe.
class DynamicLibrary {
public:
    /// By path or soname; loads it if need be. Errors: the loader's sentence.
    [[nodiscard]] static tl::expected<DynamicLibrary, std::string> open(const std::string& name);

    /// Only if it is loaded already. Errors: a sentence.
    [[nodiscard]] static tl::expected<DynamicLibrary, std::string> find_loaded(
        const std::string& name);

    /// Null if the library has none of that name.
    [[nodiscard]] void* symbol(const char* name) const noexcept;

    /// Where the loader found it.
    [[nodiscard]] std::string file() const;

    /// The same for one library, whatever the name by which it was opened.
    [[nodiscard]] const void* handle() const noexcept { return handle_; }

private:
    explicit DynamicLibrary(void* handle) noexcept : handle_{handle} {}

    void* handle_;
};

}  // namespace rondo::detail
