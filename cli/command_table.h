// What the commands that call a server share: a table of commands with one Flags struct, requests that are filled from
// flags of the same names, and the flags that many commands have.
// Threads: one at a time.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "lightcone/v1/types.pb.h"

namespace lightcone::cli {

template <typename Flags>
struct Command {
  const char *name, *help;
  absl::Status (*run)(Context& context, const Flags& flags);
  void (*declare)(CLI::App* app, Flags* flags);
};

// INVALID_ARGUMENT names the argument of `app`, or of those above it, whose value is no UTF-8, and the byte: it is
// to travel as a text. Paths of files may have any bytes.
absl::Status CheckTexts(const CLI::App& app);

// Adds the commands of a table below `parent`. All of them share one Flags.
template <typename Flags>
void AddCommands(CLI::App& parent, Context& context, std::initializer_list<Command<Flags>> table) {
  auto flags = std::make_shared<Flags>();
  for (const Command<Flags>& one : table) {
    CLI::App* app = AddCommand(parent, one.name, one.help);
    one.declare(app, flags.get());
    app->callback([&context, flags, app, run = one.run] {
      const absl::Status texts = CheckTexts(*app);
      context.Finish(texts.ok() ? run(context, *flags) : texts);
    });
  }
}

// A request with the fields that the flags name alike. A flag that is optional and absent leaves its field out.
template <typename Request, typename Flags>
Request RequestOf(const Flags& flags) {
  Request request;
#define LC_SET_FIELD(field)                                        \
  if constexpr (requires { request.set_##field(*flags.field); }) { \
    if (flags.field) request.set_##field(*flags.field);            \
  } else if constexpr (requires {                                  \
                         flags.field;                              \
                         request.set_##field(flags.field);         \
                       }) {                                        \
    request.set_##field(flags.field);                              \
  }
  LC_SET_FIELD(collection)
  LC_SET_FIELD(request_id)
  LC_SET_FIELD(name)
  LC_SET_FIELD(id)
  LC_SET_FIELD(generation)
  LC_SET_FIELD(from_generation)
  LC_SET_FIELD(to_generation)
  LC_SET_FIELD(reference_generation)
  LC_SET_FIELD(head_generation)
  LC_SET_FIELD(parent)
  LC_SET_FIELD(draft)
  LC_SET_FIELD(force)
  LC_SET_FIELD(reason)
  LC_SET_FIELD(expect_active)
  LC_SET_FIELD(expects_adapter)
  LC_SET_FIELD(tolerance)
  LC_SET_FIELD(measure)
  LC_SET_FIELD(without_calibration)
  LC_SET_FIELD(share)
  LC_SET_FIELD(label_field)
  LC_SET_FIELD(map)
  LC_SET_FIELD(loss)
  LC_SET_FIELD(width)
  LC_SET_FIELD(pairs_max)
  LC_SET_FIELD(embed_max)
  LC_SET_FIELD(items)
  LC_SET_FIELD(seed)
  LC_SET_FIELD(embed_rate)
  LC_SET_FIELD(p99_ms_max)
  LC_SET_FIELD(wait)
  LC_SET_FIELD(limit)
  LC_SET_FIELD(page_size)
  LC_SET_FIELD(token)
  LC_SET_FIELD(same_content)
  LC_SET_FIELD(keep_input)
  LC_SET_FIELD(keep_payload)
  LC_SET_FIELD(with_payload)
  LC_SET_FIELD(with_vector)
  LC_SET_FIELD(k)
  LC_SET_FIELD(ef)
  LC_SET_FIELD(nprobe)
  LC_SET_FIELD(target_recall)
  LC_SET_FIELD(offset)
  LC_SET_FIELD(score_threshold)
  LC_SET_FIELD(distance_max)
  LC_SET_FIELD(relevance_min)
  LC_SET_FIELD(scale_generation)
  LC_SET_FIELD(require_generation)
  LC_SET_FIELD(default_ttl_ms)
  LC_SET_FIELD(exact)
  LC_SET_FIELD(profile)
  LC_SET_FIELD(wait_for_sequence)
  LC_SET_FIELD(canary_key)
  LC_SET_FIELD(embed_older)
  LC_SET_FIELD(refresh_top)
#undef LC_SET_FIELD
  return request;
}

inline void AddCollectionArgument(CLI::App* app, std::string* collection) {
  app->add_option("collection", *collection, "Name of the collection, or an alias of it")->required();
}
inline void AddGenerationArgument(CLI::App* app, uint32_t* generation) {
  app->add_option("generation", *generation, "Number of the generation")->required();
}
inline void AddRequestId(CLI::App* app, std::string* request_id) {
  app->add_option("--request-id", *request_id,
                  "Id of the request: a call with the same id is carried out once. Default: a new id");
}
inline void AddFilter(CLI::App* app, std::string* filter) {
  app->add_option("--filter", *filter, "Filter that items must pass, like class = \"cat\"");
}
// Paths of the payload's fields that an answer has.
struct PayloadFlags {
  std::vector<std::string> include, exclude;
};
inline void AddPayloadSelection(CLI::App* app, PayloadFlags* flags) {
  app->add_option("--field", flags->include, "PATH of a payload field to show; default: all");
  app->add_option("--without-field", flags->exclude, "PATH of a payload field to leave out");
}
inline void SetPayloadSelection(const PayloadFlags& flags, v1::PayloadSelection* selection) {
  for (const std::string& path : flags.include) selection->add_include(path);
  for (const std::string& path : flags.exclude) selection->add_exclude(path);
}
inline void AddDurability(CLI::App* app, std::string* durability) {
  app->add_option("--durability", *durability,
                  "What a write survives: durable (a loss of power; the default) or process (a kill)");
}
// Seconds on the command line, milliseconds on the wire.
inline void AddTtl(CLI::App* app, const std::string& name, std::optional<uint64_t>* ttl_ms, const std::string& help) {
  constexpr double kSecondsMax = 3.2e9;  // a hundred years, about
  app->add_option_function<double>(
         name, [ttl_ms](const double& seconds) { *ttl_ms = static_cast<uint64_t>(std::ceil(seconds * 1'000)); },
         help + "; 0: never")
      ->check(CLI::Range(0.0, kSecondsMax));
}
inline constexpr char kItemIdHelp[] =
    "Id of an item: digits are a number, anything else is a name, \"42\" in double "
    "quotes is a name";

}  // namespace lightcone::cli
