// Shell completion, made from the flags as they are declared, so that it is never behind them.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"

namespace lightcone::cli {
namespace {

std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* sub) { return !sub->get_group().empty(); });  // A hidden command has no group.
}

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Calls `visit` with the words behind the program's name ("collection create") and the App, depth first.
void Walk(const CLI::App& app, const std::string& path,
          const std::function<void(const std::string&, const CLI::App&)>& visit) {
  visit(path, app);
  for (const CLI::App* sub : SubcommandsOf(app))
    Walk(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), visit);
}

// What may follow `app`: its subcommands and flags, and the global flags.
std::string WordsAfter(const CLI::App& root, const CLI::App& app) {
  std::string words;
  const auto add = [&words](const std::string& word) { words += words.empty() ? word : " " + word; };
  for (const CLI::App* sub : SubcommandsOf(app)) add(sub->get_name());
  for (const std::string& flag : FlagsOf(app)) add(flag);
  if (&app != &root) {
    for (const std::string& flag : FlagsOf(root)) {
      if (flag != "--help") add(flag);
    }
  }
  return words;
}

std::string FishQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// The subcommand words before the cursor choose the list; files complete where no word fits. For zsh, too: that has no
// mapfile, and its `path` is the program path.
std::string BashFunction(const CLI::App& root) {
  std::string script = R"(_lightcone() {
  local word chosen="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    case "$chosen $word" in
)";
  Walk(root, "", [&script](const std::string& path, const CLI::App&) {
    if (!path.empty()) script += StrCat("      \" ", path, "\") chosen=\" ", path, "\" ;;\n");
  });
  script += R"(    esac
  done
  local words=""
  case "$chosen" in
)";
  Walk(root, "", [&](const std::string& path, const CLI::App& app) {
    script += StrCat("    \"", path.empty() ? "" : " ", path, "\") words=\"", WordsAfter(root, app), "\" ;;\n");
  });
  script += R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _lightcone lightcone
)";
  return script;
}

std::string FishScript(const CLI::App& root) {
  std::string script = "# fish completion of lightcone\n";
  Walk(root, "", [&](const std::string& path, const CLI::App& app) {
    std::string condition = path.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + path;
    if (const size_t space = path.find(' '); space != std::string::npos) {
      condition = StrCat("__fish_seen_subcommand_from ", path.substr(0, space), "; and __fish_seen_subcommand_from ",
                         path.substr(space + 1));
    }
    for (const CLI::App* sub : SubcommandsOf(app)) {
      script += StrCat("complete -c lightcone -n ", FishQuoted(condition), " -f -a ", sub->get_name(), " -d ",
                       FishQuoted(sub->get_description()), "\n");
    }
    for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
      for (const std::string& name : option->get_lnames()) {
        script += StrCat("complete -c lightcone", path.empty() ? std::string() : StrCat(" -n ", FishQuoted(condition)),
                         " -l ", name, " -d ", FishQuoted(option->get_description()), "\n");
      }
    }
  });
  return script;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const CLI::App& root, const std::string& shell) {
  if (shell == "bash") return "# bash completion of lightcone\n" + BashFunction(root);
  if (shell == "zsh") {
    return "#compdef lightcone\nautoload -U +X bashcompinit && bashcompinit\n" + BashFunction(root);
  }
  if (shell == "fish") return FishScript(root);
  return InvalidField("shell", StrCat("'", shell, "'"), "bash, zsh, fish");
}

void AddCompletion(CLI::App& root, Context& context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = AddHeldCommand(root, "completion");
  app->add_option("shell", *shell, "Shell: bash, zsh or fish")->required();
  app->callback([&root, &context, shell] {
    const absl::StatusOr<std::string> script = CompletionScript(root, *shell);
    if (script.ok()) context.Print(*script);
    context.Finish(script.status());
  });
}

}  // namespace lightcone::cli
