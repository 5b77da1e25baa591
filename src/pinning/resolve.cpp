// SPDX-License-Identifier: Apache-2.0
#include "pinning/resolve.hpp"

#include "pinning/dynamic_library.hpp"
#include "pinning/error_codes.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rondo::detail {
namespace {

/// One climb, and what it met so far.
class Climb {
public:
    explicit Climb(const SearchPlan& plan) {
        result_.forced = plan.forced.has_value();
        for (const Rung& rung : ladder(plan)) {
            if (rung.candidates.empty()) record(rung, "(none)", rung.empty_reason);
            for (const std::string& candidate : rung.candidates) {
                if (probe(rung, candidate)) return;
            }
        }
    }

    [[nodiscard]] Resolution take() && { return std::move(result_); }

private:
    struct Probed {
        std::string name;
        std::filesystem::path file;  ///< empty for a soname
        const void* handle;          ///< null if it could not be opened
    };

    void record(const Rung& rung, std::string candidate, std::string outcome) {
        result_.attempts.push_back({rung.name, std::move(candidate), std::move(outcome)});
    }

    bool probe(const Rung& rung, const std::string& candidate) {
        const auto file = file_of(candidate);
        if (const Probed* const before = probed_file(file)) {
            record(rung, candidate, "probed above" + also_known_as(*before, candidate));
            return false;
        }
        const auto library = rung.open == Rung::Open::loaded_only
                                 ? DynamicLibrary::find_loaded(candidate)
                                 : DynamicLibrary::open(candidate);
        if (!library) {
            record(rung, candidate, library.error());
            probed_.push_back({candidate, file, nullptr});
            return false;
        }
        if (const Probed* const before = probed_handle(library->handle())) {
            record(rung, candidate, "probed above" + also_known_as(*before, candidate));
            return false;
        }
        probed_.push_back({candidate, file, library->handle()});
        return judge(rung, candidate, *library);
    }

    bool judge(const Rung& rung, const std::string& candidate, const DynamicLibrary& library) {
        std::string missing;
        auto api = rung.api == Rung::Api::runtime ? api_of<RuntimeEntryPoints>(library, missing)
                                                  : api_of<DriverEntryPoints>(library, missing);
        if (api == nullptr) {
            record(rung, candidate, "it lacks " + missing);
            return false;
        }
        int devices = 0;
        const CallResult counted = api->count_devices(devices);
        if (!counted.ok()) {
            const auto hint = hint_for(counted.code, {});
            record(rung, candidate, describe(*api, counted) + (hint.empty() ? "" : ". " + hint));
            api->clear_last_error();
            return false;
        }
        if (devices <= 0) {
            record(rung, candidate, "it sees no device");
            return false;
        }
        result_.rung = rung.name;
        result_.library = library.file();
        result_.device_count = devices;
        record(rung, candidate,
               "taken: " + std::string{api->name()} + ' ' + cuda_version_text(api->version()) +
                   ", sees " + std::to_string(devices) + (devices == 1 ? " device" : " devices"));
        result_.api = std::move(api);
        return true;
    }

    template <typename Table>
    static std::shared_ptr<PinApi> api_of(const DynamicLibrary& library, std::string& missing) {
        Table table;
        for_each_entry_point(table, [&]<typename Function>(const char* symbol, Function& function) {
            function = reinterpret_cast<Function>(library.symbol(symbol));
            if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string{symbol};
        });
        return missing.empty() ? make_pin_api(table) : nullptr;
    }

    static std::filesystem::path file_of(const std::string& candidate) {
        if (candidate.find('/') == std::string::npos) return {};
        std::error_code error;
        auto canonical = std::filesystem::canonical(candidate, error);
        return error ? std::filesystem::path{candidate} : canonical;
    }

    [[nodiscard]] const Probed* probed_file(const std::filesystem::path& file) const {
        if (file.empty()) return nullptr;
        const auto found = std::ranges::find(probed_, file, &Probed::file);
        return found != probed_.end() ? &*found : nullptr;
    }

    [[nodiscard]] const Probed* probed_handle(const void* handle) const {
        const auto found = std::ranges::find(probed_, handle, &Probed::handle);
        return found != probed_.end() ? &*found : nullptr;
    }

    static std::string also_known_as(const Probed& before, const std::string& candidate) {
        return before.name == candidate ? "" : " as " + before.name;
    }

    Resolution result_;
    std::vector<Probed> probed_;
};

}  // namespace

Resolution resolve(const SearchPlan& plan) {
    return Climb{plan}.take();
}

std::string cuda_version_text(int version) {
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace rondo::detail
