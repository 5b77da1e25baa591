// SPDX-License-Identifier: Apache-2.0
#include "spec/text.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace rondo {
namespace {

constexpr std::string_view reserved = ",:[]\\";
constexpr std::string_view ellipsis = "...";
constexpr std::size_t max_message_columns = 200;  // of one path or shape in a message
constexpr std::size_t mark_context = 36;          // on either side of a marked place

unsigned char byte_at(std::string_view text, std::size_t index) {
    return static_cast<unsigned char>(text[index]);
}

bool is_continuation(unsigned char byte) {
    return (byte & 0xC0U) == 0x80U;
}

// Line separators and the marks that reorder text, which could make a log show what is not there.
bool is_deceptive(char32_t code) {
    return (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// The bytes of the printable UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t printable_length(std::string_view text) {
    const unsigned char first = byte_at(text, 0);
    if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
    if (first < 0xC2 || first > 0xF4) return 0;
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (text.size() < length) return 0;

    char32_t code = first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        const unsigned char next = byte_at(text, i);
        if (!is_continuation(next)) return 0;
        code = (code << 6U) | (next & 0x3FU);
    }
    const char32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0xA0;
    const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < smallest || code > 0x10FFFF || is_surrogate || is_deceptive(code)) return 0;
    return length;
}

void append_hex(std::string& out, unsigned char byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += "\\x";
    out += digits[byte >> 4U];
    out += digits[byte & 0xFU];
}

// The text around `at` and, on a line below, a caret under it.
std::string marked(std::string_view text, std::size_t at) {
    std::size_t begin = at > mark_context ? at - mark_context : 0;
    while (begin < at && is_continuation(byte_at(text, begin))) ++begin;

    const Printable before = printable(text.substr(begin, at - begin), std::string::npos);
    const Printable after = printable(text.substr(at), mark_context);
    const std::string_view cut = begin > 0 ? ellipsis : std::string_view{};
    std::string out = "\n  ";
    out += cut;
    out += before.text;
    out += after.text;
    if (after.clipped) out += ellipsis;
    out += "\n  ";
    out.append(cut.size() + before.columns, ' ');
    out += '^';
    return out;
}

/// Reads `path:dtype[dim,dim],...` from the left; the first thing that does not fit ends it.
class Parser {
public:
    explicit Parser(std::string_view text) noexcept : text_{text} {}

    tl::expected<std::vector<ArraySpec>, SpecError> arrays() {
        std::vector<ArraySpec> arrays;
        if (at_end()) return arrays;
        do {
            auto array = this->array();
            if (!array) return tl::make_unexpected(std::move(array.error()));
            arrays.push_back(*std::move(array));
        } while (take(','));
        if (!at_end()) return fail(at_, "\",\" and another array, or the end");
        return arrays;
    }

private:
    tl::expected<ArraySpec, SpecError> array() {
        auto path = this->path();
        if (!path) return tl::make_unexpected(std::move(path.error()));
        auto type = this->type();
        if (!type) return tl::make_unexpected(std::move(type.error()));
        auto shape = this->shape();
        if (!shape) return tl::make_unexpected(std::move(shape.error()));
        return ArraySpec{*std::move(path), *type, *std::move(shape)};
    }

    tl::expected<std::string, SpecError> path() {
        std::string path;
        while (!take(':')) {
            if (take('\\')) {
                if (!next_is_one_of(reserved)) {
                    return fail(at_, "one of the characters , : [ ] \\ after a backslash");
                }
            } else if (at_end() || next_is_one_of(reserved)) {
                return fail(at_,
                            "the rest of a path and \":\" (within a path , : [ ] \\ have a "
                            "backslash before them)");
            }
            path += text_[at_++];
        }
        return path;
    }

    tl::expected<dtype, SpecError> type() {
        const std::size_t begin = at_;
        at_ = std::min(text_.find_first_of(reserved, begin), text_.size());
        const std::optional<dtype> type = dtype::parse(text_.substr(begin, at_ - begin));
        if (!type) {
            return fail(begin,
                        "a dtype (bool, int8 to int64, uint8 to uint64, float16, bfloat16, "
                        "float32, float64, complex64, complex128, opaque1, opaque2, ...)");
        }
        return *type;
    }

    tl::expected<std::vector<std::uint64_t>, SpecError> shape() {
        std::vector<std::uint64_t> shape;
        if (!take('[')) return fail(at_, "\"[\" and a shape ([] is a scalar)");
        if (take(']')) return shape;
        do {
            const auto dimension = this->dimension(shape.empty());
            if (!dimension) return tl::make_unexpected(dimension.error());
            shape.push_back(*dimension);
        } while (take(','));
        if (!take(']')) return fail(at_, "a digit, \",\" or \"]\"");
        return shape;
    }

    tl::expected<std::uint64_t, SpecError> dimension(bool is_first) {
        std::uint64_t value = 0;
        const char* const begin = text_.data() + at_;
        const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error == std::errc::result_out_of_range) {
            return fail(at_, "a dimension of at most 18446744073709551615");
        }
        if (error != std::errc{}) {
            return fail(at_, is_first ? "a dimension (digits) or \"]\"" : "a dimension (digits)");
        }
        at_ += static_cast<std::size_t>(stop - begin);
        return value;
    }

    bool at_end() const noexcept { return at_ == text_.size(); }

    bool next_is_one_of(std::string_view characters) const noexcept {
        return !at_end() && characters.find(text_[at_]) != std::string_view::npos;
    }

    bool take(char expected) noexcept {
        if (at_end() || text_[at_] != expected) return false;
        ++at_;
        return true;
    }

    tl::unexpected<SpecError> fail(std::size_t at, std::string_view expected) const {
        std::string what = "the spec cannot be read: expected ";
        what += expected;
        what += " at offset " + std::to_string(at) + ", found ";
        what += at == text_.size() ? "the end of the text" : in_quotes(found(at));
        what += marked(text_, at);
        return tl::make_unexpected(SpecError{SpecError::Code::syntax, std::move(what)});
    }

    // The word at `at`, or the one reserved character that stands there.
    std::string_view found(std::size_t at) const noexcept {
        const std::size_t end = std::min(text_.find_first_of(reserved, at), text_.size());
        return text_.substr(at, std::max(end - at, std::size_t{1}));
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

void append_text(std::string& out, const ArraySpec& array) {
    for (const char character : array.path) {
        if (reserved.find(character) != std::string_view::npos) out += '\\';
        out += character;
    }
    out += ':';
    out += type_text(array);
}

}  // namespace

Printable printable(std::string_view text, std::size_t max_columns) {
    constexpr std::size_t hex_columns = 4;
    Printable out;
    while (!text.empty()) {
        const std::size_t length = printable_length(text);
        const std::size_t columns = length > 0 ? 1 : hex_columns;
        if (columns > max_columns - out.columns) {
            out.clipped = true;
            break;
        }
        if (length > 0) {
            out.text += text.substr(0, length);
        } else {
            append_hex(out.text, byte_at(text, 0));
        }
        out.columns += columns;
        text.remove_prefix(std::max(length, std::size_t{1}));
    }
    return out;
}

std::string clipped(std::string_view text) {
    Printable shown = printable(text, max_message_columns);
    if (shown.clipped) shown.text += ellipsis;
    return std::move(shown.text);
}

std::string in_quotes(std::string_view text) {
    return '"' + clipped(text) + '"';
}

std::string type_text(const ArraySpec& array) {
    std::string out = array.type.name();
    out += '[';
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
        if (i > 0) out += ',';
        out += std::to_string(array.shape[i]);
    }
    out += ']';
    return out;
}

std::string described(const ArraySpec& array) {
    return in_quotes(array.path) + " (" + clipped(type_text(array)) + ')';
}

std::string ArraySpec::text() const {
    std::string out;
    append_text(out, *this);
    return out;
}

std::string SampleSpec::text() const {
    std::string out;
    for (const ArraySpec& array : arrays()) {
        if (!out.empty()) out += ',';
        append_text(out, array);
    }
    return out;
}

tl::expected<SampleSpec, SpecError> SampleSpec::parse(std::string_view text, SpecLimits limits) {
    auto arrays = Parser{text}.arrays();
    if (!arrays) return tl::make_unexpected(std::move(arrays.error()));
    return create(*std::move(arrays), limits);
}

}  // namespace rondo
