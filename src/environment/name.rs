//! What the name of a variable says about it.

/// Beginning of the names that only the managed channel may set.
pub const MANAGED_PREFIX: &str = "DSH_";

/// Words that name a secret wherever they stand inside a part of the name: no ordinary word contains them.
const ANYWHERE: [&str; 4] = ["PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// Words that name a secret when a part of the name ends with them (`PGPASSWORD`, `APIKEY`, `OAUTH`), in the plural too.
/// `TOKENIZERS`, `SECRETARY`, `KEYBOARD` and `AUTHOR` only begin with one.
const ENDINGS: [&str; 4] = ["KEY", "SECRET", "TOKEN", "AUTH"];

/// Ordinary words that end like one of [`ENDINGS`].
const INNOCENT: [&str; 8] = ["MONKEY", "DONKEY", "TURKEY", "HOCKEY", "JOCKEY", "WHISKEY", "HOTKEY", "KEYKEY"];

/// Parts that name a secret as they stand.
const WHOLE: [&str; 4] = ["CREDS", "AUTHORIZATION", "PASS", "PAT"];

/// Names whose owners chose a word that is harmless elsewhere.
const EXACT: [&str; 1] = ["MYSQL_PWD"];

/// Whether a name says that its value is a credential. Case does not matter; digits at the end of a part neither.
///
/// A name is split at everything that is not a letter or a digit. `GITHUB_TOKEN`, `APIKEY`, `SSH_AUTH_SOCK` are
/// secret; `GIT_AUTHOR_NAME`, `KEYBOARD`, `MONKEY`, `TOKENIZERS_PARALLELISM` are not.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_uppercase();
    EXACT.contains(&name.as_str()) || name.split(|c: char| !c.is_alphanumeric()).any(is_secret_part)
}

fn is_secret_part(part: &str) -> bool {
    let part = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let singular = part.strip_suffix('S').unwrap_or(part);
    WHOLE.contains(&part)
        || ANYWHERE.iter().any(|word| part.contains(word))
        || (ENDINGS.iter().any(|word| singular.ends_with(word))
            && !INNOCENT.iter().any(|word| singular.ends_with(word)))
}

/// Variables that change what a shell or a program does before it reads its first instruction.
const INJECTING: [&str; 18] = [
    "BASH_ENV",            // a file bash runs before the command
    "ENV",                 // the same for sh
    "PROMPT_COMMAND",      // run by an interactive bash
    "PS4",                 // expanded, commands included, under `set -x`
    "SHELLOPTS",           // options of bash switched on from outside
    "BASHOPTS",            // the same for shopt
    "BASH_XTRACEFD",       // where a trace is written
    "BASH_LOADABLES_PATH", // shared objects for `enable -f`
    "CDPATH",              // sends `cd NAME` elsewhere
    "GLOBIGNORE",          // hides files from patterns
    "GLIBC_TUNABLES",      // tunes, and has exploited, the loader (CVE-2023-4911)
    "GCONV_PATH",          // shared objects for character conversion
    "PYTHONSTARTUP",       // a file python runs; editors' terminals set it
    "PERL5OPT",            // switches, `-M` among them
    "PERL5DB",             // code for the debugger
    "RUBYOPT",             // switches, `-r` among them
    "LESSOPEN",            // a command less runs for each file
    "LESSCLOSE",           // and one after it
];

/// Whether an inherited variable can make a command run code that is not its own: the loader's `LD_*`, bash's exported
/// functions (`BASH_FUNC_*`), start-up files.
#[must_use]
pub fn is_injection_name(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("BASH_FUNC_") || INJECTING.contains(&name)
}

/// Whether a name belongs to the managed channel.
#[must_use]
pub fn is_managed_name(name: &str) -> bool {
    name.starts_with(MANAGED_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets() {
        for name in "GITHUB_TOKEN AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID APIKEY OPENAI_API_KEY SSH_AUTH_SOCK PGPASSWORD \
            DB_PASSWORD db_password MYSQL_PWD GPG_PASSPHRASE GOOGLE_APPLICATION_CREDENTIALS AZURE_CREDENTIAL TOKEN SECRET \
            AUTH KEY API_KEY2 TOKENS githubToken x-api-key npm_config__authToken REDISCLI_AUTH DOCKER_AUTH_CONFIG \
            DJANGO_SECRET_KEY SECRETS_DIR API_KEYS OAUTH_CLIENT HTTP_AUTHORIZATION DB_PASS AWS_CREDS PASSWD GITHUB_PAT \
            CARGO_REGISTRY_TOKEN KEY_1 PASSWORDS"
            .split_whitespace()
        {
            assert!(is_secret_name(name), "{name} is a secret");
        }
    }

    #[test]
    fn ordinary() {
        for name in "PATH HOME AUTHOR GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL KEYBOARD MONKEY GREASEMONKEY TURKEY_SIZE \
            TOKENIZERS_PARALLELISM XAUTHORITY KEYMAP SECRETARY PWD OLDPWD LANG BYPASS COMPASS_URL PATTERN PATH_INFO \
            SSH_CONNECTION AUTHENTICITY TOKENIZER MONKEYS CARGO_HOME"
            .split_whitespace()
        {
            assert!(!is_secret_name(name), "{name} is ordinary");
        }
        assert!(!is_secret_name(""));
    }

    #[test]
    fn injection() {
        for name in
            ["LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_ls%%", "SHELLOPTS"]
        {
            assert!(is_injection_name(name), "{name}");
        }
        for name in ["PATH", "ENVIRONMENT", "LDFLAGS", "BASH", "NODE_OPTIONS", "PYTHONPATH", "VIRTUAL_ENV"] {
            assert!(!is_injection_name(name), "{name}");
        }
    }
}
