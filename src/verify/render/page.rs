//! A page under construction: every text is escaped on its way in.

#![forbid(unsafe_code)]

/// The one style sheet, part of the page.
const STYLE: &str = include_str!("style.css");

pub(super) struct Page(String);

impl Page {
    pub(super) fn begin(title: &str) -> Self {
        let mut page = Self(String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"));
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
        page.element("title", "", title);
        page.raw("\n<style>\n");
        page.raw(STYLE);
        page.raw("</style>\n</head>\n<body>\n<main>\n");
        page
    }

    /// Markup of ours.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Text of anybody's.
    pub(super) fn text(&mut self, text: &str) {
        self.0.push_str(&escaped(text));
    }

    /// An element with nothing but text in it.
    pub(super) fn element(&mut self, name: &str, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", escaped(class)) };
        self.0.push_str(&format!("<{name}{class}>{}</{name}>\n", escaped(text)));
    }

    pub(super) fn end(mut self) -> String {
        self.raw("</main>\n</body>\n</html>\n");
        self.0
    }
}

/// Text as HTML; control characters, which a page may not hold, are shown.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() => html.extend(c.escape_default()),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(escaped("<a href=\"x\">'&\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\\u{1b}");
    }
}
