// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/strftime.h"

#include <cstdio>

namespace colibri::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

std::string padded(int value, int width, char fill = '0') {
  char text[16];
  std::snprintf(text, sizeof text, fill == '0' ? "%0*d" : "%*d", width, value);
  return text;
}

int days_in_year(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365; }

/// ISO 8601: weeks begin on Monday, the first one holds the year's first Thursday.
void iso_week(const std::tm& t, int& year, int& week) {
  year = t.tm_year + 1900;
  const int weekday = (t.tm_wday + 6) % 7;
  week = (t.tm_yday - weekday + 10) / 7;
  const auto weeks_in = [](int y) {
    const auto dec31 = [](int of) { return (of + of / 4 - of / 100 + of / 400) % 7; };
    return dec31(y) == 4 || dec31(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) {
    week = weeks_in(--year);
  } else if (week > weeks_in(year) && t.tm_yday + 3 - weekday >= days_in_year(year)) {
    week = 1;
    ++year;
  }
}

}  // namespace

std::string format_time(std::string_view format, const std::tm& t) {
  const int year = t.tm_year + 1900;
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const std::string_view day = kDays[static_cast<unsigned>(t.tm_wday) % 7];
  const std::string_view month = kMonths[static_cast<unsigned>(t.tm_mon) % 12];
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    bool bare = false;  // %-d: no padding
    if (format[i + 1] == '-' && i + 2 < format.size()) {
      bare = true;
      ++i;
    }
    const char code = format[++i];
    const auto number = [&](int value, int width, char fill = '0') { out += padded(value, bare ? 1 : width, fill); };
    switch (code) {
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'b':
      case 'h':
        out += month.substr(0, 3);
        break;
      case 'B':
        out += month;
        break;
      case 'c':
        out += format_time("%a %b %e %H:%M:%S %Y", t);
        break;
      case 'C':
        number(year / 100, 2);
        break;
      case 'd':
        number(t.tm_mday, 2);
        break;
      case 'D':
      case 'x':
        out += format_time("%m/%d/%y", t);
        break;
      case 'e':
        number(t.tm_mday, 2, ' ');
        break;
      case 'f':
        out += "000000";
        break;
      case 'F':
        out += format_time("%Y-%m-%d", t);
        break;
      case 'G':
      case 'V': {
        int iso_year = 0, week = 0;
        iso_week(t, iso_year, week);
        number(code == 'G' ? iso_year : week, code == 'G' ? 4 : 2);
        break;
      }
      case 'H':
        number(t.tm_hour, 2);
        break;
      case 'I':
        number(hour12, 2);
        break;
      case 'j':
        number(t.tm_yday + 1, 3);
        break;
      case 'k':
        number(t.tm_hour, 2, ' ');
        break;
      case 'l':
        number(hour12, 2, ' ');
        break;
      case 'm':
        number(t.tm_mon + 1, 2);
        break;
      case 'M':
        number(t.tm_min, 2);
        break;
      case 'n':
        out += '\n';
        break;
      case 'p':
        out += t.tm_hour < 12 ? "AM" : "PM";
        break;
      case 'R':
        out += format_time("%H:%M", t);
        break;
      case 'S':
        number(t.tm_sec, 2);
        break;
      case 't':
        out += '\t';
        break;
      case 'T':
      case 'X':
        out += format_time("%H:%M:%S", t);
        break;
      case 'u':
        number(t.tm_wday == 0 ? 7 : t.tm_wday, 1);
        break;
      case 'U':
        number((t.tm_yday + 7 - t.tm_wday) / 7, 2);
        break;
      case 'w':
        number(t.tm_wday, 1);
        break;
      case 'W':
        number((t.tm_yday + 7 - (t.tm_wday + 6) % 7) / 7, 2);
        break;
      case 'y':
        number(year % 100, 2);
        break;
      case 'Y':
        out += std::to_string(year);
        break;
      case 'z':
      case 'Z':
        break;  // the time has no zone, as Python's naive datetime
      case '%':
        out += '%';
        break;
      default:
        out.append(bare ? "%-" : "%").append(1, code);
    }
  }
  return out;
}

}  // namespace colibri::jinja
