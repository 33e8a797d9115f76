//! Passwords and tokens, and the files they come from.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::Problem;

/// A text that is never printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the server it is meant for and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Where secret files are: as given, else in the service manager's credentials directory.
#[derive(Debug)]
pub(super) struct SecretFiles {
    /// `$CREDENTIALS_DIRECTORY`.
    pub(super) credentials: Option<PathBuf>,
}

impl SecretFiles {
    /// The content of the file that the setting `field` names, without its trailing newline; `None` when the setting
    /// is absent.
    pub(super) fn password(&self, field: &str, path: Option<&str>) -> Result<Option<Secret>, Problem> {
        let Some((path, text)) = self.read(field, path)? else { return Ok(None) };
        let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        if text.is_empty() {
            return Err(Problem::new(field, format!("{} is empty; write the password into it", path.display())));
        }
        Ok(Some(Secret::new(text.to_owned())))
    }

    /// The tokens of the file that the setting `field` names, one a line; none when the setting is absent.
    pub(super) fn tokens(&self, field: &str, path: Option<&str>) -> Result<Vec<Secret>, Problem> {
        let Some((path, text)) = self.read(field, path)? else { return Ok(Vec::new()) };
        let path = path.display();
        let mut tokens = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let token = line.trim();
            if !token.bytes().all(|b| b.is_ascii_graphic()) {
                let what = format!("{path}, line {number}: a token is one word of visible ASCII characters");
                return Err(Problem::new(field, what));
            }
            if !token.is_empty() {
                tokens.push(Secret::new(token.to_owned()));
            }
        }
        if tokens.is_empty() {
            return Err(Problem::new(field, format!("{path} holds no token; write one a line into it")));
        }
        Ok(tokens)
    }

    fn read(&self, field: &str, path: Option<&str>) -> Result<Option<(PathBuf, String)>, Problem> {
        let Some(given) = super::fields::path(field, path)? else { return Ok(None) };
        let failed = match fs::read_to_string(&given) {
            Ok(text) => return Ok(Some((given, text))),
            Err(error) => format!("cannot read {}: {error}", given.display()),
        };
        let credential = self.credentials.as_deref().zip(given.file_name()).map(|(dir, name)| dir.join(name));
        let Some(credential) = credential else { return Err(Problem::new(field, failed)) };
        match fs::read_to_string(&credential) {
            Ok(text) => Ok(Some((credential, text))),
            Err(error) => Err(Problem::new(
                field,
                format!("{failed}; nor $CREDENTIALS_DIRECTORY's {}: {error}", credential.display()),
            )),
        }
    }
}

/// Refuses a file of certificates that cannot be read, so that it does not fail at the first connection.
pub(super) fn readable(field: &str, path: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    let Some(path) = super::fields::path(field, path)? else { return Ok(None) };
    let check = |path: &Path| fs::File::open(path).and_then(|file| file.metadata()).map(|meta| meta.is_file());
    match check(&path) {
        Ok(true) => Ok(Some(path)),
        Ok(false) => Err(Problem::new(field, format!("{} is not a file", path.display()))),
        Err(error) => Err(Problem::new(field, format!("cannot read {}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: Option<&Path>) -> SecretFiles {
        SecretFiles { credentials: dir.map(Path::to_owned) }
    }

    fn write(dir: &Path, name: &str, text: &str) -> String {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    #[test]
    fn prints_as_redacted() {
        let secret = Secret::new("hunter2".into());
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[redacted] [redacted] Some([redacted])");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn drops_one_trailing_newline_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for (text, password) in [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), (" p w \n\n", " p w \n")] {
            let path = write(dir.path(), "pw", text);
            let read = files(None).password("redis.password_file", Some(&path)).unwrap().unwrap();
            assert_eq!(read.expose(), password);
        }
        assert!(files(None).password("redis.password_file", None).unwrap().is_none());
    }

    #[test]
    fn looks_into_the_credentials_directory_second() {
        let given = tempfile::tempdir().unwrap();
        let credentials = tempfile::tempdir().unwrap();
        write(credentials.path(), "pw", "from credentials");
        let path = given.path().join("pw").display().to_string();
        let read = || files(Some(credentials.path())).password("f", Some(&path)).unwrap().unwrap().expose().to_owned();
        assert_eq!(read(), "from credentials");
        write(given.path(), "pw", "as given");
        assert_eq!(read(), "as given");
    }

    #[test]
    fn names_the_key_and_the_path_of_a_file_it_cannot_use() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing").display().to_string();
        let empty = write(dir.path(), "empty", "\n");
        for path in [&missing, &empty] {
            let error = files(Some(dir.path())).password("mysql.password_file", Some(path)).unwrap_err().to_string();
            assert!(error.starts_with("mysql.password_file: ") && error.contains(path.as_str()), "{error}");
        }
        assert!(files(None).password("f", Some("")).unwrap_err().to_string().contains("empty"));
        assert!(readable("redis.ca_file", Some(&missing)).is_err());
        assert!(readable("redis.ca_file", Some(&dir.path().display().to_string())).is_err());
    }

    #[test]
    fn takes_a_token_from_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = |text| {
            let path = write(dir.path(), "tokens", text);
            let tokens = files(None).tokens("api.token_file", Some(&path))?;
            Ok(tokens.iter().map(|token| token.expose().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(tokens("new\n\n  old  \r\n").unwrap(), ["new", "old"]);
        let problem: Problem = tokens("good\nsecret word\n").unwrap_err();
        assert!(problem.to_string().contains("line 2") && !problem.to_string().contains("secret"), "{problem}");
        assert!(tokens("\n \n").unwrap_err().to_string().contains("holds no token"));
    }
}
