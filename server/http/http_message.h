// A request and its answer, without the connection that carries them. Threads: plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lightcone::server {

constexpr char kPlainText[] = "text/plain; charset=utf-8";

struct HttpRequest {
  std::string method;                          // "GET", as the client wrote it
  std::string path;                            // "/api/v1/overview", percent-decoded
  std::map<std::string, std::string> query;    // percent-decoded; the first value of each name
  std::map<std::string, std::string> headers;  // names in lower case; the first value of each name
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string_view, std::string>> headers = {};  // beside type, length and connection
};

// What the server says where no handler answers: the reason and a line's end.
inline HttpAnswer RefusalOf(int status, std::string reason) { return {status, kPlainText, std::move(reason) + "\n"}; }

}  // namespace lightcone::server
