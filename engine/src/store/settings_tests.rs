use super::*;
use crate::api::Theme;
use std::os::unix::fs::PermissionsExt;

struct Home {
    _root: tempfile::TempDir,
    dirs: Dirs,
    path: PathBuf,
}

fn home(text: Option<&str>) -> Home {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::under(root.path());
    fs::create_dir(&dirs.config).unwrap();
    let path = dirs.config.join("config.toml");
    if let Some(text) = text {
        fs::write(&path, text).unwrap();
    }
    Home {
        _root: root,
        dirs,
        path,
    }
}

fn larger() -> Settings {
    Settings {
        font_size: 20,
        theme: Theme::Dark,
        ..Settings::default()
    }
}

#[test]
fn without_a_file_the_defaults_hold_and_none_is_written() {
    let home = home(None);
    let (settings, problems) = SettingsFile::load(&home.dirs);
    assert_eq!(
        (settings.current(), problems),
        (Settings::default(), vec![])
    );
    assert!(!home.path.exists());
}

#[test]
fn changed_settings_come_back_and_the_file_is_private() {
    let home = home(None);
    let (settings, _) = SettingsFile::load(&home.dirs);
    settings.change(larger()).unwrap();
    let (again, problems) = SettingsFile::load(&home.dirs);
    assert_eq!((again.current(), problems), (larger(), vec![]));
    let mode = fs::metadata(&home.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let names: Vec<_> = fs::read_dir(&home.dirs.config).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file is left");
}

#[test]
fn comments_and_order_of_a_valid_file_stay() {
    let home = home(Some(
        "# mine\nscrollbackLines = 5000 # enough\n\nfontSize = 11\n",
    ));
    let (settings, problems) = SettingsFile::load(&home.dirs);
    assert_eq!(problems, vec![]);
    let changed = Settings {
        font_size: 20,
        webgl: true,
        ..settings.current()
    };
    settings.change(changed).unwrap();
    assert_eq!(
        fs::read_to_string(&home.path).unwrap(),
        "# mine\nscrollbackLines = 5000 # enough\n\nfontSize = 20\nwebgl = true\n"
    );
}

fn invalid(text: &str) -> Problem {
    let home = home(Some(text));
    let (settings, mut problems) = SettingsFile::load(&home.dirs);
    assert_eq!(settings.current(), Settings::default());
    assert_eq!(
        fs::read_to_string(&home.path).unwrap(),
        text,
        "the file is left as it is"
    );
    assert_eq!(problems.len(), 1);
    let problem = problems.remove(0);
    assert_eq!(problem.code, "CONFIG_INVALID");
    assert!(problem.fix.is_some());
    problem
}

#[test]
fn an_unknown_setting_is_refused_by_name_and_line() {
    let problem = invalid("fontSize = 12\n\nfontsize = 13\n");
    assert!(
        problem.message.contains("line 3, fontsize,"),
        "{}",
        problem.message
    );
}

#[test]
fn a_value_outside_its_range_is_refused_by_name_and_line() {
    let problem = invalid("webgl = true\nfontSize = 41\n");
    assert!(
        problem.message.contains("line 2, fontSize,"),
        "{}",
        problem.message
    );
    let problem = invalid("scrollbackLines = 999\n");
    assert!(
        problem.message.contains("line 1, scrollbackLines,"),
        "{}",
        problem.message
    );
    let problem = invalid("fontFamily = \"a\\u0007b\"\n");
    assert!(
        problem.message.contains("line 1, fontFamily,"),
        "{}",
        problem.message
    );
}

#[test]
fn a_value_of_another_type_is_refused_by_name_and_line() {
    let problem = invalid("# size\nfontSize = \"big\"\n");
    assert!(
        problem.message.contains("line 2, fontSize,"),
        "{}",
        problem.message
    );
    let problem = invalid("theme = \"pink\"\n");
    assert!(
        problem.message.contains("line 1, theme,"),
        "{}",
        problem.message
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_by_line() {
    let problem = invalid("fontSize = 12\n[[[\n");
    assert!(problem.message.contains("line 2"), "{}", problem.message);
}

#[test]
fn a_change_replaces_an_invalid_file_and_keeps_it_as_backup() {
    for bytes in [
        b"fontSize = 12\n[[[\n".to_vec(),
        b"fontSize = \xff\xfe\n".to_vec(),
    ] {
        let home = home(None);
        fs::write(&home.path, &bytes).unwrap();
        let (settings, problems) = SettingsFile::load(&home.dirs);
        assert_eq!(problems[0].code, "CONFIG_INVALID");
        settings.change(larger()).unwrap();
        assert_eq!(
            fs::read(home.dirs.config.join("config.toml.bak")).unwrap(),
            bytes
        );
        let (again, problems) = SettingsFile::load(&home.dirs);
        assert_eq!((again.current(), problems), (larger(), vec![]));
    }
}

#[test]
fn a_changed_setting_outside_its_range_is_refused_and_nothing_changes() {
    let home = home(None);
    let (settings, _) = SettingsFile::load(&home.dirs);
    let error = settings
        .change(Settings {
            font_size: 7,
            ..Settings::default()
        })
        .unwrap_err();
    assert_eq!(error.code(), "CONFIG_INVALID");
    assert_eq!(
        error.to_string(),
        "the setting fontSize is not valid: 7 is not between 8 and 40"
    );
    assert_eq!(settings.current(), Settings::default());
    assert!(!home.path.exists());
}

#[test]
fn settings_that_cannot_be_saved_hold_until_the_end_and_the_error_says_so() {
    let root = tempfile::tempdir().unwrap();
    let dirs = Dirs::under(root.path());
    fs::write(&dirs.config, "in the way").unwrap();
    let (settings, problems) = SettingsFile::load(&dirs);
    assert_eq!(problems[0].code, "CONFIG_UNREADABLE");
    assert_eq!(
        settings.change(larger()).unwrap_err().code(),
        "CONFIG_DIR_UNWRITABLE"
    );
    assert_eq!(settings.current(), larger());
}

#[test]
fn a_linked_file_is_written_where_it_leads() {
    let home = home(None);
    let target = home.dirs.config.join("elsewhere.toml");
    fs::write(&target, "fontSize = 11\n").unwrap();
    std::os::unix::fs::symlink(&target, &home.path).unwrap();
    let (settings, _) = SettingsFile::load(&home.dirs);
    settings
        .change(Settings {
            font_size: 20,
            ..Settings::default()
        })
        .unwrap();
    assert!(fs::symlink_metadata(&home.path).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "fontSize = 20\n");
}
