// SPDX-License-Identifier: Apache-2.0
#include "pinning/search_plan.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <system_error>
#include <tuple>
#include <utility>

namespace rondo::detail {
namespace {

namespace fs = std::filesystem;

/// NVIDIA's wheels hold it 3 levels below their vendor package; deeper lies nothing of theirs, and
/// a site directory on a network would be slow to search.
constexpr int wheel_levels = 4;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_alphanumeric(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// Directory entries, in the order of their names; none if there is no such directory.
std::vector<fs::directory_entry> entries(const fs::path& directory) {
    std::vector<fs::directory_entry> found;
    std::error_code error;
    for (fs::directory_iterator at{directory, error}, end; !error && at != end;
         at.increment(error)) {
        found.push_back(*at);
    }
    std::ranges::sort(found, {}, &fs::directory_entry::path);
    return found;
}

bool directory_exists(const fs::path& path) {
    std::error_code error;
    return fs::is_directory(path, error);
}

/// Newest major first; a name without one is a link to one of the others, as a rule.
void sort_newest_first(std::vector<fs::path>& runtimes) {
    std::ranges::sort(runtimes, {}, [](const fs::path& path) {
        const int major = cudart_major(path.filename().native()).value_or(0);
        return std::tuple{-major, path.native().size(), path.native()};
    });
}

/// The runtimes in `directory` and in at most `levels - 1` levels of directories below it. Links to
/// files count, links to directories do not: they may lead anywhere, and back.
void find_runtimes(const fs::path& directory, int levels, std::vector<fs::path>& found) {
    for (const fs::directory_entry& entry : entries(directory)) {
        std::error_code error;
        if (cudart_major(entry.path().filename().native())) {
            if (entry.is_regular_file(error)) found.push_back(entry.path());
        } else if (levels > 1 && !entry.is_symlink(error) && entry.is_directory(error)) {
            find_runtimes(entry.path(), levels - 1, found);
        }
    }
}

/// Several names of one file are one candidate: the first.
std::vector<std::string> distinct(const std::vector<fs::path>& paths) {
    std::vector<std::string> kept;
    std::vector<fs::path> seen;
    for (const fs::path& path : paths) {
        std::error_code error;
        fs::path canonical = fs::canonical(path, error);
        if (error) canonical = path;
        if (std::ranges::find(seen, canonical) != seen.end()) continue;
        seen.push_back(std::move(canonical));
        kept.push_back(path.native());
    }
    return kept;
}

/// The runtimes of a toolkit, a distribution's prefix or a conda environment.
std::vector<fs::path> runtimes_of_root(const fs::path& root) {
    std::vector<fs::path> found;
    constexpr std::array libraries{"lib64", "lib", "targets/x86_64-linux/lib",
                                   "targets/sbsa-linux/lib"};
    for (const char* const library : libraries) find_runtimes(root / library, 1, found);
    sort_newest_first(found);
    return found;
}

std::string join(const std::vector<fs::path>& paths) {
    std::string text;
    for (const fs::path& path : paths) {
        if (!text.empty()) text += ", ";
        text += path.native();
    }
    return text;
}

Rung override_rung(const SearchPlan& plan) {
    Rung rung{.name = "override", .candidates = {}, .empty_reason = {}};
    if (!plan.forced) {
        rung.empty_reason = "neither ServerOptions::cudart nor RONDO_CUDART is set";
        return rung;
    }
    rung.name += " by " + plan.forced->source;
    rung.candidates = {plan.forced->path};
    if (fs::path{plan.forced->path}.filename().native().starts_with("libcuda.so")) {
        rung.api = Rung::Api::driver;
    }
    return rung;
}

Rung already_loaded_rung(const SearchPlan& plan) {
    Rung rung{.name = "already-loaded scan",
              .candidates = {},
              .empty_reason = "no libcudart is loaded in this process",
              .open = Rung::Open::loaded_only};
    for (const std::string& object : plan.loaded_objects) {
        if (cudart_major(fs::path{object}.filename().native())) rung.candidates.push_back(object);
    }
    return rung;
}

Rung wheel_rung(const SearchPlan& plan) {
    Rung rung{.name = "installed-wheel search", .candidates = {}, .empty_reason = {}};
    std::vector<fs::path> found;
    for (const fs::path& site : plan.site_directories) {
        std::vector<fs::path> of_site;
        find_runtimes(site / "nvidia", wheel_levels, of_site);
        sort_newest_first(of_site);
        found.insert(found.end(), of_site.begin(), of_site.end());
    }
    rung.candidates = distinct(found);
    rung.empty_reason = plan.site_directories.empty()
                            ? "no Python site directory is known"
                            : "no libcudart beneath nvidia/ in " + join(plan.site_directories);
    return rung;
}

Rung soname_rung(const SearchPlan& plan) {
    return {
        .name = "soname load", .candidates = plan.sonames, .empty_reason = "the plan names none"};
}

Rung root_rung(const SearchPlan::Root& root) {
    Rung rung{.name = root.variable, .candidates = {}, .empty_reason = {}};
    if (root.path.empty()) {
        rung.empty_reason = "not set";
        return rung;
    }
    rung.candidates = distinct(runtimes_of_root(root.path));
    rung.empty_reason = "no libcudart in the library directories of " + root.path;
    return rung;
}

Rung toolkit_rung(const SearchPlan& plan) {
    Rung rung{.name = "toolkit directories", .candidates = {}, .empty_reason = {}};
    std::vector<fs::path> found;
    for (const fs::path& toolkit : plan.toolkits) {
        const auto of_toolkit = runtimes_of_root(toolkit);
        found.insert(found.end(), of_toolkit.begin(), of_toolkit.end());
    }
    rung.candidates = distinct(found);
    rung.empty_reason = plan.toolkits.empty() ? "there is no /usr/local/cuda*"
                                              : "no libcudart in " + join(plan.toolkits);
    return rung;
}

Rung driver_rung(const SearchPlan& plan) {
    Rung rung{.name = "driver API",
              .candidates = {},
              .empty_reason = "the plan names no driver",
              .open = Rung::Open::load,
              .api = Rung::Api::driver};
    if (!plan.driver_soname.empty()) rung.candidates = {plan.driver_soname};
    return rung;
}

/// Where pip puts wheels for whoever started this program: its virtual environment, the user's
/// directory, the machine's.
std::vector<fs::path> usual_site_directories(const SearchContext& context) {
    std::vector<fs::path> prefixes;
    for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (auto prefix = context.variable(name); !prefix.empty()) prefixes.emplace_back(prefix);
    }
    if (const auto home = context.variable("HOME"); !home.empty()) {
        prefixes.push_back(fs::path{home} / ".local");
    }
    prefixes.push_back(context.root / "usr/local");

    std::vector<fs::path> sites;
    for (const fs::path& prefix : prefixes) {
        auto pythons = entries(prefix / "lib");
        std::ranges::reverse(pythons);
        for (const fs::directory_entry& python : pythons) {
            if (!python.path().filename().native().starts_with("python3")) continue;
            for (const char* const packages : {"site-packages", "dist-packages"}) {
                if (auto site = python.path() / packages; directory_exists(site))
                    sites.push_back(site);
            }
        }
    }
    return sites;
}

/// The numbers in a name: cuda-12.4 comes before cuda-9.2, which the order of letters reverses.
std::vector<int> numbers_in(std::string_view name) {
    std::vector<int> numbers;
    for (std::size_t at = 0; at < name.size(); ++at) {
        if (!is_digit(name[at])) continue;
        int number = 0;
        for (; at < name.size() && is_digit(name[at]) && number < 10'000; ++at) {
            number = number * 10 + (name[at] - '0');
        }
        numbers.push_back(number);
    }
    return numbers;
}

/// /usr/local/cuda, the administrator's choice, then the versions, newest first.
std::vector<fs::path> toolkits_in(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : entries(directory)) {
        const auto name = entry.path().filename().native();
        if ((name == "cuda" || name.starts_with("cuda-")) && directory_exists(entry.path())) {
            found.push_back(entry.path());
        }
    }
    std::ranges::stable_sort(found, [](const fs::path& left, const fs::path& right) {
        const auto left_name = left.filename().native();
        const auto right_name = right.filename().native();
        if ((left_name == "cuda") != (right_name == "cuda")) return left_name == "cuda";
        return numbers_in(left_name) > numbers_in(right_name);
    });
    return found;
}

}  // namespace

std::string environment_variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::optional<int> cudart_major(std::string_view file_name) {
    constexpr std::string_view stem = "libcudart";
    constexpr std::string_view suffix = ".so";
    if (!file_name.starts_with(stem)) return std::nullopt;
    file_name.remove_prefix(stem.size());
    if (file_name.starts_with('-')) {  // the hash that wheel repair tools put in
        const auto end = std::ranges::find_if_not(file_name.substr(1), is_alphanumeric);
        const auto hash = static_cast<std::size_t>(end - file_name.begin());
        if (hash == 1) return std::nullopt;
        file_name.remove_prefix(hash);
    }
    if (!file_name.starts_with(suffix)) return std::nullopt;
    file_name.remove_prefix(suffix.size());
    if (file_name.empty()) return 0;
    int major = 0;
    for (std::size_t parts = 0; !file_name.empty(); ++parts) {
        if (file_name.size() < 2 || file_name[0] != '.' || !is_digit(file_name[1]))
            return std::nullopt;
        file_name.remove_prefix(1);
        int number = 0;
        for (; !file_name.empty() && is_digit(file_name[0]); file_name.remove_prefix(1)) {
            number = std::min(number * 10 + (file_name[0] - '0'), 10'000);
        }
        if (parts == 0) major = number;
    }
    return major;
}

SearchPlan make_search_plan(const SearchContext& context) {
    SearchPlan plan;
    if (!context.cudart.empty()) {
        plan.forced = {context.cudart, "ServerOptions::cudart"};
    } else if (auto path = context.variable("RONDO_CUDART"); !path.empty()) {
        plan.forced = {std::move(path), "RONDO_CUDART"};
    }
    plan.loaded_objects = context.loaded_objects;
    plan.site_directories = context.site_directories.empty() ? usual_site_directories(context)
                                                             : context.site_directories;
    plan.sonames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
    for (const char* const name : {"CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME"}) {
        plan.roots.push_back({name, context.variable(name)});
    }
    plan.toolkits = toolkits_in(context.root / "usr/local");
    plan.driver_soname = default_driver_soname;
    return plan;
}

std::vector<Rung> ladder(const SearchPlan& plan) {
    std::vector<Rung> rungs;
    rungs.push_back(override_rung(plan));
    if (plan.forced) return rungs;
    rungs.push_back(already_loaded_rung(plan));
    rungs.push_back(wheel_rung(plan));
    rungs.push_back(soname_rung(plan));
    for (const SearchPlan::Root& root : plan.roots) rungs.push_back(root_rung(root));
    rungs.push_back(toolkit_rung(plan));
    rungs.push_back(driver_rung(plan));
    return rungs;
}

}  // namespace rondo::detail
