// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::detail {

/// Where to look for something that can page-lock memory. All that `ladder` and `resolve` know of
/// the process; a value.
struct SearchPlan {
    struct Override {
        std::string path;    ///< or a soname
        std::string source;  ///< who said so, e.g. "RONDO_CUDART"
    };
    /// A directory that an environment variable names.
    struct Root {
        std::string variable;  ///< also the rung's name
        std::string path;      ///< empty: not set
    };

    std::optional<Override> forced;
    std::vector<std::string> loaded_objects;
    std::vector<std::filesystem::path> site_directories;
    std::vector<std::string> sonames;
    std::vector<Root> roots;
    std::vector<std::filesystem::path> toolkits;
    std::string driver_soname;
};

/// The environment variables that a plan is made from.
inline constexpr std::array searched_variables{"RONDO_CUDART", "VIRTUAL_ENV", "HOME",
                                               "CONDA_PREFIX", "CUDA_PATH",   "CUDA_HOME"};

inline constexpr const char* default_driver_soname = "libcuda.so.1";

/// What a plan is made from. `variable` is getenv, or a test's; empty and unset are the same.
struct SearchContext {
    std::string cudart;                                   ///< ServerOptions::cudart
    std::vector<std::filesystem::path> site_directories;  ///< empty: the usual ones
    std::function<std::string(const char* name)> variable{};
    std::vector<std::string> loaded_objects{};
    std::filesystem::path root = "/";  ///< where /usr/local is looked for
};

[[nodiscard]] SearchPlan make_search_plan(const SearchContext& context);

/// The value of an environment variable of this process; empty if it is not set.
[[nodiscard]] std::string environment_variable(const char* name);

/// The major version in the file name of a CUDA runtime, hashed names as in
/// libcudart-8774224f.so.12 included; 0 if it has none; nothing for every other name,
/// libcudart_static.a among them.
[[nodiscard]] std::optional<int> cudart_major(std::string_view file_name);

/// One step of the ladder: what it would open, in order, or why that is nothing.
struct Rung {
    enum class Open : std::uint8_t {
        loaded_only,  ///< never loads anything
        load,
    };
    enum class Api : std::uint8_t { runtime, driver };

    std::string name;
    std::vector<std::string> candidates;
    std::string empty_reason;
    Open open = Open::load;
    Api api = Api::runtime;
};

/// The rungs in the order in which they are climbed. Looks into the plan's directories, opens
/// nothing. With an override it is the only rung.
[[nodiscard]] std::vector<Rung> ladder(const SearchPlan& plan);

}  // namespace rondo::detail
