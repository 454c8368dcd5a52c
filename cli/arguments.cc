#include "cli/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/files.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/formats/filter_parser.h"
#include "cli/formats/ids.h"

namespace lightcone::cli {

absl::StatusOr<std::vector<float>> ParseVectorText(const std::string& text) {
  std::string body = text;
  if (body.starts_with('[') && body.ends_with(']')) body = body.substr(1, body.size() - 2);
  std::vector<float> values;
  const char* at = body.c_str();
  const char* const end = at + body.size();
  const auto skip = [&] {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n')) ++at;
  };
  for (skip(); at < end; skip()) {
    char* after = nullptr;
    const float value = std::strtof(at, &after);
    if (after == at || !std::isfinite(value)) {
      return InvalidField(StrCat("vector[", values.size(), "]"), StrCat("'", std::string(at, end).substr(0, 20), "'"),
                          "finite numbers, separated by commas");
    }
    values.push_back(value);
    at = after;
    skip();
    if (at < end && *at == ',') ++at;
  }
  if (values.empty()) return InvalidField("vector", "empty", "at least one number");
  return values;
}

absl::StatusOr<v1::Durability> ParseDurability(const std::string& text) {
  if (text.empty() || text == "durable") return v1::DURABILITY_DURABLE;
  if (text == "process") return v1::DURABILITY_PROCESS;
  return InvalidField("--durability", StrCat("'", text, "'"), "durable, process");
}

absl::Status SetFilter(const std::string& text, v1::Filter* filter) {
  LC_ASSIGN_OR_RETURN(*filter, ParseFilter(text));
  return absl::OkStatus();
}

absl::Status AddIds(const std::vector<std::string>& texts, google::protobuf::RepeatedPtrField<v1::ItemId>* ids) {
  for (const std::string& text : texts) {
    LC_ASSIGN_OR_RETURN(*ids->Add(), ParseItemId(text));
  }
  return absl::OkStatus();
}

absl::Status SetImage(const std::string& path, v1::RawInput* input) {
  LC_ASSIGN_OR_RETURN(*input->mutable_image(), ReadFile(path, int64_t{32} << 20));
  return absl::OkStatus();
}

namespace {

// Arguments that name files or folders of this machine.
constexpr std::string_view kPaths[] = {"file",          "--data",         "--encoder", "--failure-head", "--ids",
                                       "--image",       "--manifest",     "--model",   "--out",          "--queries",
                                       "--recipe-file", "--skip-invalid", "--state",   "--truth",        "--vectors"};

}  // namespace

absl::Status CheckTexts(const CLI::App& app) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      const std::string name = option->get_name();
      if (std::find(std::begin(kPaths), std::end(kPaths), name) != std::end(kPaths)) continue;
      for (const std::string& value : option->results()) {
        LC_RETURN_IF_ERROR(CheckUtf8(value, name));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lightcone::cli
