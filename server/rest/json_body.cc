#include "server/rest/json_body.h"

#include <string>
#include <vector>

#include "base/json_depth.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

using nlohmann::json;

constexpr int64_t kValueBytes = sizeof(json) * 2;  // arrays grow by doubling
constexpr int64_t kMemberBytes = 96;               // node of a map beside its key's text
constexpr int64_t kNodeBytes = 64;                 // object, array or text on the heap

// Makes a value of what the parser reads, and refuses what a value could not hold as it was written.
class BodyBuilder : public json::json_sax_t {
 public:
  explicit BodyBuilder(ParsedBody* body) : body_(body) {}
  absl::Status status() const { return status_; }

  bool null() override { return Put(json()) != nullptr; }
  bool boolean(bool value) override { return Put(json(value)) != nullptr; }
  bool number_integer(number_integer_t value) override { return Put(json(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Put(json(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) {
      return Fail(InvalidField("body", StrCat("with the integer ", text.substr(0, 40)),
                               StrCat("integers of ", INT64_MIN, " .. ", UINT64_MAX)));
    }
    return Put(json(value)) != nullptr;
  }
  bool string(string_t& text) override {
    return Charge(kNodeBytes + static_cast<int64_t>(text.size())) && Put(json(std::move(text))) != nullptr;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(json::object()); }
  bool key(string_t& text) override {
    if (open_.back()->contains(text)) {
      return Fail(InvalidField("body", StrCat("with the key '", text.substr(0, 60), "' twice in one object"),
                               "each key at most once"));
    }
    key_ = std::move(text);
    return Charge(kMemberBytes + static_cast<int64_t>(key_.size()));
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t place, const std::string&, const json::exception& error) override {
    std::string what = error.what();
    what = what.substr(what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2);
    return Fail(InvalidArgument(StrCat("Format error in JSON body: ", what.substr(0, 300), " (byte ", place, ")")));
  }

 private:
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Charge(int64_t bytes) {
    return body_->Take(bytes) ||
           Fail(ResourceExhausted("the bodies of requests take as much memory as they may; try again, or send less"));
  }
  json* Put(json value) {
    if (!Charge(kValueBytes)) return nullptr;
    if (open_.empty()) return &(body_->value = std::move(value));
    json& parent = *open_.back();
    if (!parent.is_array()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool Open(json value) {
    json* const placed = Charge(kNodeBytes) ? Put(std::move(value)) : nullptr;
    if (placed != nullptr) open_.push_back(placed);
    return placed != nullptr;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  ParsedBody* const body_;
  absl::Status status_;
  std::vector<json*> open_;  // Each is the last element of the one before it.
  std::string key_;
};

}  // namespace

bool ParsedBody::Take(int64_t bytes) {
  if (!budget_->Take(bytes)) return false;
  taken_ += bytes;
  return true;
}

absl::StatusOr<ParsedBody> ParseJsonBody(std::string_view text, JsonBudget* budget) {
  if (JsonNestsDeeper(text, kJsonDepthMax)) {
    return InvalidField("body", "nested too deeply", StrCat("at most ", kJsonDepthMax, " levels"));
  }
  ParsedBody body(budget);
  BodyBuilder builder(&body);
  if (!json::sax_parse(text, &builder)) {
    if (!builder.status().ok()) return builder.status();
    return InvalidArgument("Format error in JSON body");
  }
  return body;
}

}  // namespace lightcone::server
