#include "server/http/request_head.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <limits>

#include "absl/strings/match.h"
#include "base/strings.h"

namespace lightcone::server {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::empty_body>;

int HexOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// false: a percent sign without two hexadecimal digits, or a zero byte.
bool Decode(std::string_view text, bool plus_is_space, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexOf(text[i + 1]) : -1;
      const int low = high >= 0 ? HexOf(text[i + 2]) : -1;
      if (low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return false;
    out->push_back(c);
  }
  return true;
}

bool ParseTarget(std::string_view target, HttpRequest* request) {
  if (!target.starts_with('/')) return false;
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  if (!Decode(target.substr(0, mark), false, &request->path)) return false;
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    std::string name, value;
    if (!Decode(pair.substr(0, equals), true, &name)) return false;
    if (equals != std::string_view::npos && !Decode(pair.substr(equals + 1), true, &value)) return false;
    request->query.emplace(std::move(name), std::move(value));
  }
  return true;
}

void Refuse(int status, std::string reason, RequestHead* head) {
  if (head->refusal != 0) return;
  head->refusal = status;
  head->reason = std::move(reason);
}

void RefuseByError(const boost::system::error_code& error, RequestHead* head) {
  if (error == http::error::bad_content_length) return Refuse(400, "Content-Length must be one number", head);
  if (error == http::error::bad_transfer_encoding) {
    return Refuse(400, "Transfer-Encoding and Content-Length exclude each other", head);
  }
  if (error == http::error::bad_version)
    return Refuse(400, "the request line must end with HTTP/1.0 or HTTP/1.1", head);
  Refuse(400, StrCat("this is no head of an HTTP request: ", error.message()), head);
}

// Why the body is not read. Its size must be known before it is in memory.
void CheckBody(RequestHead* head) {
  const HttpRequest& request = head->request;
  if (request.headers.contains("transfer-encoding")) {
    return Refuse(501, "Transfer-Encoding is not taken; send Content-Length", head);
  }
  if (request.headers.contains("content-encoding")) {
    return Refuse(415, "Content-Encoding is not taken; send the body as it is", head);
  }
  const auto type = request.headers.find("content-type");
  if (type != request.headers.end() && type->second.starts_with("multipart/form-data")) {
    return Refuse(415, "multipart/form-data is not taken; send JSON or an image", head);
  }
  const std::string& method = request.method;
  if ((method == "POST" || method == "PUT" || method == "PATCH") && !request.headers.contains("content-length")) {
    return Refuse(411, StrCat(method, " needs Content-Length"), head);
  }
  const auto expect = request.headers.find("expect");
  if (expect == request.headers.end()) return;
  head->waits_for_leave = absl::EqualsIgnoreCase(expect->second, "100-continue");
  if (!head->waits_for_leave) Refuse(417, StrCat("Expect is '", expect->second, "', allowed: 100-continue"), head);
}

}  // namespace

RequestHead ParseRequestHead(std::string_view text) {
  RequestHead head;
  Parser parser;
  parser.header_limit(std::numeric_limits<uint32_t>::max());  // The caller has bounded the head.
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  boost::system::error_code error;
  parser.put({text.data(), text.size()}, error);
  if (error) {
    RefuseByError(error, &head);
    return head;
  }
  if (!parser.is_header_done()) {
    Refuse(400, "the head ends within a line", &head);
    return head;
  }
  const Parser::value_type& message = parser.get();
  head.http_1_0 = message.version() == 10;
  head.keep_alive = message.keep_alive();
  head.body_bytes = parser.content_length().value_or(0);
  HttpRequest& request = head.request;
  request.method.assign(message.method_string().data(), message.method_string().size());
  for (const auto& field : message) {
    std::string name(field.name_string().data(), field.name_string().size());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool is_host = name == "host";
    const auto [at, first] =
        request.headers.emplace(std::move(name), std::string(field.value().data(), field.value().size()));
    if (is_host && !first) Refuse(400, "Host must come once", &head);
  }
  const std::string_view target(message.target().data(), message.target().size());
  if (target.size() > kTargetBytesMax) {
    Refuse(414, StrCat("the path and the query have ", target.size(), " bytes, allowed: 1 .. ", kTargetBytesMax),
           &head);
  } else if (!ParseTarget(target, &request)) {
    Refuse(400, "the target must be a path, with two hexadecimal digits after each '%'", &head);
  }
  CheckBody(&head);
  return head;
}

}  // namespace lightcone::server
