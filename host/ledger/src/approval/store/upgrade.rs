//! Upgrades of the database from earlier versions.

/// Upgrades a file of the first version, which stored the kind and name of a program in one text:
/// empty for the skill, `--command` for the shell, `tool:` and a name for a tool, and otherwise the
/// name of a program, which could also be called `--command` or `tool:x`. An ambiguous text is read
/// the strict way: a level that denies still denies both, and one that approves asks again.
/// Approvals end, because they named neither the real folder nor what ran in it. Pending runs are
/// forgotten, and asked again; staged writes are kept, since no run can request them again.
pub(super) const FROM_1: &str = "
    ALTER TABLE level RENAME TO level_1;
    CREATE TABLE level (skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, level TEXT NOT NULL, digest TEXT, who TEXT NOT NULL,
        time TEXT NOT NULL, PRIMARY KEY (skill, kind, name)) WITHOUT ROWID;
    INSERT INTO level SELECT skill, 'skill', '', level, digest, who, time FROM level_1 WHERE what = '';
    INSERT INTO level SELECT skill, 'tool', substr(what, 6), iif(level = 'auto-approved', 'enabled', level), NULL, who, time
        FROM level_1 WHERE what GLOB 'tool:*';
    INSERT INTO level SELECT skill, 'command', '', iif(level = 'auto-approved', 'enabled', level), NULL, who, time
        FROM level_1 WHERE what = '--command';
    INSERT INTO level SELECT skill, 'program', what, level, digest, who, time FROM level_1
        WHERE what <> '' AND (level NOT IN ('enabled', 'auto-approved') OR NOT (what GLOB 'tool:*' OR what = '--command'));
    DROP TABLE level_1;
    DROP INDEX approval_of;
    ALTER TABLE approval ADD COLUMN kind TEXT NOT NULL DEFAULT 'skill';
    ALTER TABLE approval RENAME COLUMN what TO name;
    UPDATE approval SET over = ifnull(over, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
    ALTER TABLE pending ADD COLUMN kind TEXT NOT NULL DEFAULT 'skill';
    ALTER TABLE pending RENAME COLUMN what TO name;
    ALTER TABLE approval ADD COLUMN input TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN input TEXT NOT NULL DEFAULT '';
    DELETE FROM pending WHERE diff IS NULL;
    UPDATE approval SET kind = CASE WHEN name = '' THEN 'skill' WHEN name = '--command' THEN 'command' WHEN name GLOB 'tool:*' THEN 'tool' ELSE 'program' END;
    UPDATE pending SET kind = CASE WHEN name = '' THEN 'skill' WHEN name = '--command' THEN 'command' WHEN name GLOB 'tool:*' THEN 'tool' ELSE 'program' END;
    UPDATE approval SET name = CASE kind WHEN 'command' THEN '' WHEN 'tool' THEN substr(name, 6) ELSE name END;
    UPDATE pending SET name = CASE kind WHEN 'command' THEN '' WHEN 'tool' THEN substr(name, 6) ELSE name END;
    CREATE INDEX approval_of ON approval (skill, kind, name);
";

/// Upgrades a file of the second version, which stored permissions as text. Approvals end, and
/// pending runs are forgotten and asked again, because their permissions cannot be compared; staged
/// writes are kept.
pub(super) const FROM_2: &str = "
    ALTER TABLE approval ADD COLUMN permissions TEXT;
    ALTER TABLE pending ADD COLUMN permissions TEXT;
    UPDATE approval SET over = ifnull(over, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));
    DELETE FROM pending WHERE diff IS NULL;
";

/// Upgrades a file of the third version, whose levels applied to every workspace, whose levels and
/// approvals had no end, and which had no settings and forgot rejected requests.
pub(super) const FROM_3: &str = "
    ALTER TABLE level RENAME TO level_3;
    CREATE TABLE level (skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, level TEXT NOT NULL, digest TEXT, who TEXT NOT NULL,
        time TEXT NOT NULL, workspace TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL, until TEXT,
        PRIMARY KEY (skill, kind, name, workspace, device, inode)) WITHOUT ROWID;
    INSERT INTO level SELECT skill, kind, name, level, digest, who, time, '', 0, 0, NULL FROM level_3;
    DROP TABLE level_3;
    ALTER TABLE approval ADD COLUMN until TEXT;
    ALTER TABLE approval ADD COLUMN rejected INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE setting (skill TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, secret INTEGER NOT NULL, who TEXT NOT NULL, time TEXT NOT NULL,
        workspace TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL, PRIMARY KEY (skill, name, workspace)) WITHOUT ROWID;
";
