// The options table: every option from flag, environment and file; precedence; errors; the documentation.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/status.h"
#include "base/toml.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/options/option_table.h"
#include "server/options/resolve.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

const Environment kNoEnvironment = [](const std::string&) { return std::optional<std::string>(); };

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "lightcone-config-XXXXXX").string();
    const int fd = mkstemp(name.data());
    close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A value that is allowed and is not the default.
std::string OtherValue(const Option& option) {
  const std::string now = option.get(ServerConfig());
  if (option.is_text) {
    const size_t comma = option.allowed.find(", ");
    const bool choice = option.key.starts_with("log.") || option.key == "console.mode" || option.key == "index.kind" ||
                        option.key == "index.codes" || option.key == "engine.gpu" ||
                        option.key == "engine.gpu_storage" || option.key == "encoder.sandbox" ||
                        option.key == "encoder.uploads" || option.key == "store.damage";
    if (option.key == "train.data_folders") return "/a:/b";
    if (option.key == "encoder.endpoint_keys") return "/a";
    if (option.key == "trace.endpoint") return "http://127.0.0.1:4318/v1/traces";
    if (!choice) return "127.0.0.1:1";
    const std::string first = option.allowed.substr(0, comma);
    return first != now ? first : option.allowed.substr(comma + 2, option.allowed.find(',', comma + 2) - comma - 2);
  }
  for (const char* candidate : {"true", "1", "2", "17", "0.5", "33554432"}) {
    ServerConfig scratch;
    if (option.set(candidate, &scratch).ok() && option.get(scratch) != now) return candidate;
  }
  return "";
}

std::string AsFile(const Option& option, const std::string& value) {
  const size_t dot = option.key.find('.');
  const std::string shown = option.is_text ? TomlQuoted(value) : value;
  if (dot == std::string::npos) return option.key + " = " + shown + "\n";
  return "[" + option.key.substr(0, dot) + "]\n" + option.key.substr(dot + 1) + " = " + shown + "\n";
}

TEST(Options, EachIsSettableFromFlagEnvironmentAndFile) {
  for (const Option& option : OptionTable()) {
    SCOPED_TRACE(option.key);
    const std::string value = OtherValue(option);
    ASSERT_NE(value, "") << "no other value is allowed";
    ServerConfig expected;
    ASSERT_TRUE(option.set(value, &expected).ok());
    const std::string wanted = option.get(expected);
    ASSERT_NE(wanted, option.get(ServerConfig()));

    CLI::App app;
    ServerFlags flags;
    AddServerFlags(&app, &flags);
    app.parse(option.Flag() + " " + value, false);
    const auto by_flag = ResolveConfig(flags, kNoEnvironment);
    ASSERT_TRUE(by_flag.ok()) << by_flag.status();
    EXPECT_EQ(option.get(by_flag->config), wanted);
    EXPECT_EQ(by_flag->sources.at(option.key), "flag " + option.Flag());

    const auto by_environment = ResolveConfig({}, [&](const std::string& name) {
      return name == option.Environment() ? std::optional<std::string>(value) : std::nullopt;
    });
    ASSERT_TRUE(by_environment.ok()) << by_environment.status();
    EXPECT_EQ(option.get(by_environment->config), wanted);

    const ConfigFile file(AsFile(option, value));
    ServerFlags with_file;
    with_file.config_file = file.path();
    const auto by_file = ResolveConfig(with_file, kNoEnvironment);
    ASSERT_TRUE(by_file.ok()) << by_file.status();
    EXPECT_EQ(option.get(by_file->config), wanted);
    for (const Option& other : OptionTable()) {
      if (other.key != option.key) {
        EXPECT_EQ(other.get(by_file->config), other.get(ServerConfig())) << other.key;
      }
    }
  }
}

// The page of docs/reference that has the option.
std::string PageOf(const Option& option) {
  const std::string group = option.key.substr(0, option.key.find('.'));
  if (group == "index") return "index-options.md";
  if (group == "rpc") return "call-options.md";
  if (group == "auth" || group == "tls" || group == "http" || group == "console" || group == "audit") {
    return "trust-options.md";
  }
  return group == "limits" || group == "encoder" || group == "helper" ? "limit-options.md" : "options.md";
}

std::string PathOf(const std::string& page) { return StrCat(LIGHTCONE_SOURCE_DIR, "/docs/reference/", page); }

// The table of a page.
std::string OptionsAsMarkdown(const std::string& page) {
  std::string out = "| key | default | allowed | what it is | when to change it |\n| --- | --- | --- | --- | --- |\n";
  for (const Option& option : OptionTable()) {
    if (PageOf(option) != page) continue;
    const std::string value = option.get(ServerConfig());
    out += StrCat("| `", option.key, "` | ", value.empty() ? "empty" : value, " | ", option.allowed,
                  option.unit.empty() ? "" : " " + option.unit, " | ", option.help, " | ", option.when, " |\n");
  }
  return out;
}

TEST(Options, TheDocumentationHasTheTablesAsTheyAre) {
  std::set<std::string> pages;
  for (const Option& option : OptionTable()) pages.insert(PageOf(option));
  for (const std::string& page : pages) {
    std::string text = ReadFile(PathOf(page)).value();
    const size_t begin = text.find('\n', text.find("<!-- options:begin")) + 1;
    const size_t end = text.find("<!-- options:end");
    ASSERT_NE(end, std::string::npos) << page;
    if (std::getenv("LIGHTCONE_WRITE_OPTIONS") != nullptr) {
      text.replace(begin, end - begin, OptionsAsMarkdown(page));
      ASSERT_TRUE(WriteFileAtomically(PathOf(page), text).ok());
      continue;
    }
    EXPECT_EQ(text.substr(begin, end - begin), OptionsAsMarkdown(page))
        << page << ": write it again with LIGHTCONE_WRITE_OPTIONS=1 build/bin/options_test";
  }
}

TEST(Options, EachHasHelpAndItsDefaultIsAllowed) {
  std::set<std::string> keys;
  for (const Option& option : OptionTable()) {
    SCOPED_TRACE(option.key);
    EXPECT_TRUE(keys.insert(option.key).second) << "stands twice";
    EXPECT_GT(option.help.size(), 10u);
    EXPECT_GT(option.when.size(), 5u);
    EXPECT_NE(option.allowed, "");
    ServerConfig config;
    EXPECT_TRUE(option.set(option.get(config), &config).ok()) << "the default is not allowed";
  }
}

TEST(Options, EveryValueThatTheTableAllowsIsOneThatTheServerTakes) {
  int ranges = 0;
  for (const Option& option : OptionTable()) {
    const size_t dots = option.allowed.find(" .. ");
    if (option.is_text || dots == std::string::npos) continue;
    for (const std::string& value : {option.allowed.substr(0, dots), option.allowed.substr(dots + 4)}) {
      ServerConfig config;
      ASSERT_TRUE(option.set(value, &config).ok()) << option.key << " = " << value;
      EXPECT_TRUE(config.engine.Validate().ok()) << option.key << " = " << value << ": " << config.engine.Validate();
      // The one bound that depends on another option.
      config.index.merge_rows_max = std::max(config.index.merge_rows_max, config.index.growing_rows_max);
      EXPECT_TRUE(config.index.Validate().ok()) << option.key << " = " << value << ": " << config.index.Validate();
      ++ranges;
    }
  }
  EXPECT_GT(ranges, 60);
}

TEST(Options, HostsOfEndpointsAreAListAndTheirKeysAFolder) {
  ServerConfig config;
  const Option* const hosts = FindOption("encoder.endpoint_hosts");
  const Option* const keys = FindOption("encoder.endpoint_keys");
  ASSERT_TRUE(hosts != nullptr && keys != nullptr);
  ASSERT_TRUE(hosts->set("api.example.org,127.0.0.1:80", &config).ok());
  EXPECT_EQ(config.engine.endpoints.hosts, (std::vector<std::string>{"api.example.org", "127.0.0.1:80"}));
  EXPECT_EQ(hosts->get(config), "api.example.org,127.0.0.1:80");
  for (const char* const wrong : {",", "a,", ",a", "a,,b"}) EXPECT_FALSE(hosts->set(wrong, &config).ok()) << wrong;
  EXPECT_FALSE(keys->set("a/folder", &config).ok()) << "which folder it is would depend on where the server starts";
  EXPECT_TRUE(keys->set("", &config).ok());
}

TEST(Options, TracesGoToAnUrlOfHttpWithoutAPassword) {
  ServerFlags flags;
  flags.values["trace.endpoint"] = "127.0.0.1:4318";
  EXPECT_THAT(MessageOf(ResolveConfig(flags, kNoEnvironment).status()),
              HasSubstr("flag --trace-endpoint: field 'trace.endpoint' is 14 bytes that are no URL; allowed: http://"));
  flags.values = {{"trace.endpoint", "http://me:secret@127.0.0.1:4318/v1/traces"}};
  const std::string refusal = MessageOf(ResolveConfig(flags, kNoEnvironment).status());
  EXPECT_THAT(refusal, HasSubstr("'trace.endpoint' is a URL with a user or a password"));
  EXPECT_THAT(refusal, testing::Not(HasSubstr("secret")));
  flags.values = {{"trace.sample_share", "1.5"}};
  EXPECT_THAT(MessageOf(ResolveConfig(flags, kNoEnvironment).status()),
              HasSubstr("field 'trace.sample_share' is '1.5'; allowed: a number, 0 .. 1"));
}

TEST(Options, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const ConfigFile file("[limits]\nk_max = 3\nef_max = 3\nqueries_max = 3\n");
  ServerFlags flags;
  flags.config_file = file.path();
  flags.values["limits.k_max"] = "1";
  const auto resolved = ResolveConfig(flags, [](const std::string& name) {
    return name == "LIGHTCONE_LIMITS_K_MAX" || name == "LIGHTCONE_LIMITS_EF_MAX" ? std::optional<std::string>("2")
                                                                                 : std::nullopt;
  });
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->config.engine.limits.k_max, 1);
  EXPECT_EQ(resolved->config.engine.limits.ef_max, 2);
  EXPECT_EQ(resolved->config.engine.limits.queries_max, 3);
  EXPECT_EQ(resolved->sources.at("limits.queries_max"), "file " + file.path() + ":4");
  EXPECT_EQ(resolved->sources.at("limits.id_bytes_max"), "default");
}

TEST(Options, AnUnknownKeyNamesItsLineAndTheNearestKnownOne) {
  const ConfigFile file("listen = \"127.0.0.1:0\"\n\n[limits]\nk_maxx = 5\n");
  ServerFlags flags;
  flags.config_file = file.path();
  const absl::Status status = ResolveConfig(flags, kNoEnvironment).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr(file.path() + ":4"));
  EXPECT_THAT(MessageOf(status), HasSubstr("'limits.k_maxx'"));
  EXPECT_THAT(MessageOf(status), HasSubstr("did you mean 'limits.k_max'?"));
}

TEST(Options, ABadValueNamesKeyValueRangeAndSource) {
  ServerFlags flags;
  flags.values["limits.k_max"] = "0";
  EXPECT_THAT(MessageOf(ResolveConfig(flags, kNoEnvironment).status()),
              HasSubstr("flag --limits-k-max: field 'limits.k_max' is '0'; allowed: a whole number, 1 .. 1000000"));
  flags.values["limits.k_max"] = "many";
  EXPECT_THAT(MessageOf(ResolveConfig(flags, kNoEnvironment).status()), HasSubstr("'many'"));
  const ConfigFile quoted("threads = \"2\"\n");
  ServerFlags file;
  file.config_file = quoted.path();
  EXPECT_THAT(MessageOf(ResolveConfig(file, kNoEnvironment).status()), HasSubstr("a number without quotes"));
  file.config_file = "/nowhere/lightcone.toml";
  EXPECT_EQ(ResolveConfig(file, kNoEnvironment).status().code(), absl::StatusCode::kNotFound);
}

TEST(Options, ThePrintedConfigGivesTheSameConfigAgain) {
  ServerFlags flags;
  for (const Option& option : OptionTable()) flags.values[option.key] = OtherValue(option);
  flags.values["data"] = "a \"quoted\" folder\\";
  const auto first = ResolveConfig(flags, kNoEnvironment);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string printed = PrintConfig(*first);
  EXPECT_THAT(printed, HasSubstr("# flag --limits-k-max"));
  const ConfigFile file(printed);
  ServerFlags again;
  again.config_file = file.path();
  const auto second = ResolveConfig(again, kNoEnvironment);
  ASSERT_TRUE(second.ok()) << second.status();
  for (const Option& option : OptionTable()) EXPECT_EQ(option.get(first->config), option.get(second->config));
}

TEST(Toml, ReadsWhatAConfigurationNeeds) {
  const auto entries = ParseToml(
      "# top\na = 1 # one\r\nb = \"x # y \\u00e9 \\\"\"\n[s]\nc = 'raw\\n'\nd.e = true\n[s.t]\nf = 1_000.5", "f");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  EXPECT_EQ((*entries)[1].value, "x # y \xc3\xa9 \"");
  EXPECT_EQ((*entries)[2].value, "raw\\n");
  EXPECT_EQ((*entries)[3].key, "s.d.e");
  EXPECT_EQ((*entries)[4].key, "s.t.f");
  EXPECT_EQ((*entries)[4].line, 8);
}

TEST(Toml, RefusesWhatItDoesNotUnderstandWithTheLine) {
  for (const char* text : {"\na", "\n= 1", "\na =", "\na = [1]", "\na = \"x", "\na = 'x' y", "\n[x", "\n[[x]]",
                           "\na = \"\\q\"", "\na = \"\"\"x\"\"\"", "\na b = 1", "\na = \"\\ud800\"", "a=1\na = 2"}) {
    const absl::Status status = ParseToml(text, "file").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr("file:2: ")) << text;
  }
}

}  // namespace
}  // namespace lightcone::server
