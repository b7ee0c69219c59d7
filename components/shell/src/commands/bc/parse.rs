//! Reads bc's language into statements.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A constant, whose value depends on `ibase` at the time it is used.
    Number(String),
    Name(String),
    Text(String),
    Operator(&'static str),
    LineEnd,
}

/// What may be assigned.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Variable(String),
    Element(String, Box<Expression>),
    Scale,
    InputBase,
    OutputBase,
    Last,
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    Number(String),
    Read(Place),
    /// An array as an argument.
    Array(String),
    Assign {
        place: Place,
        operator: Option<char>,
        value: Box<Expression>,
    },
    Step {
        place: Place,
        by: i64,
        shows_old: bool,
    },
    Minus(Box<Expression>),
    Not(Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Call(String, Vec<Expression>),
    InParentheses(Box<Expression>),
}

#[derive(Clone, Debug)]
pub(super) enum Statement {
    Expression(Expression),
    Text(String),
    Print(Vec<Statement>),
    Block(Vec<Statement>),
    If(Expression, Box<Statement>, Option<Box<Statement>>),
    While(Expression, Box<Statement>),
    For {
        start: Option<Expression>,
        test: Option<Expression>,
        step: Option<Expression>,
        body: Box<Statement>,
    },
    Break,
    Continue,
    Return(Option<Expression>),
    Halt,
    /// Ends the program as soon as it is read.
    Quit,
    Define(String, Function),
}

#[derive(Clone, Debug)]
pub(super) struct Function {
    /// A statement that calls it prints nothing.
    pub(super) is_void: bool,
    pub(super) parameters: Vec<Local>,
    pub(super) locals: Vec<Local>,
    pub(super) body: Vec<Statement>,
}

/// A parameter or an `auto` variable.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) name: String,
    pub(super) is_array: bool,
}

const OPERATORS: [&str; 32] = [
    "&&", "||", "==", "!=", "<=", ">=", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "+", "-",
    "*", "/", "%", "^", "(", ")", "[", "]", "{", "}", ",", ";", "=", "<", ">", "!",
];

/// Blocks and parentheses nest no deeper.
const DEEPEST: usize = 200;

/// A program, read statement by statement.
pub(super) struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

/// The line of a syntax error.
pub(super) struct SyntaxError(pub(super) usize);

type Parsed<T> = Result<T, SyntaxError>;

impl Parser {
    pub(super) fn new(text: &str) -> Parser {
        Parser { tokens: tokens(text), at: 0, depth: 0 }
    }

    /// Returns the next statements: those of a line, or a longer one that begins there. `None` at the end.
    ///
    /// # Errors
    /// A syntax error; the rest of its line is skipped.
    pub(super) fn next(&mut self) -> Parsed<Option<Vec<Statement>>> {
        self.skip_lines();
        if self.at >= self.tokens.len() {
            return Ok(None);
        }
        self.depth = 0;
        self.line().map(Some).inspect_err(|_| {
            while self.at < self.tokens.len() && self.tokens[self.at].0 != Token::LineEnd {
                self.at += 1;
            }
        })
    }

    fn line(&mut self) -> Parsed<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            while self.takes(";") {}
            if self.is_line_end() {
                return Ok(statements);
            }
            statements.push(self.statement()?);
            if !self.is(";") && !self.is_line_end() {
                return Err(self.error());
            }
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error());
        }
        let statement = match self.peek().cloned() {
            Some(Token::Text(text)) => {
                self.at += 1;
                Statement::Text(text)
            }
            Some(Token::Operator("{")) => {
                self.at += 1;
                Statement::Block(self.block()?)
            }
            Some(Token::Name(name)) => match self.keyword(&name)? {
                Some(statement) => statement,
                None => Statement::Expression(self.expression()?),
            },
            _ => Statement::Expression(self.expression()?),
        };
        self.depth -= 1;
        Ok(statement)
    }

    /// The statements up to the closing brace.
    fn block(&mut self) -> Parsed<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            while self.takes(";") || self.takes_line_end() {}
            if self.takes("}") {
                return Ok(statements);
            }
            statements.push(self.statement()?);
            if !self.is(";") && !self.is("}") && !self.takes_line_end() {
                return Err(self.error());
            }
        }
    }

    fn keyword(&mut self, name: &str) -> Parsed<Option<Statement>> {
        let start = self.at;
        self.at += 1;
        let statement = match name {
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            "halt" => Statement::Halt,
            "quit" => Statement::Quit,
            "return" => {
                let ends = self.is(";") || self.is("}") || self.is_line_end();
                Statement::Return(if ends { None } else { Some(self.expression()?) })
            }
            "print" => Statement::Print(self.print_list()?),
            "if" => {
                let test = self.test()?;
                let body = self.body()?;
                Statement::If(test, Box::new(body), self.other()?)
            }
            "while" => {
                let test = self.test()?;
                Statement::While(test, Box::new(self.body()?))
            }
            "for" => self.for_loop()?,
            "define" => self.define()?,
            _ => {
                self.at = start;
                return Ok(None);
            }
        };
        Ok(Some(statement))
    }

    fn print_list(&mut self) -> Parsed<Vec<Statement>> {
        let mut parts = Vec::new();
        loop {
            parts.push(match self.peek().cloned() {
                Some(Token::Text(text)) => {
                    self.at += 1;
                    Statement::Text(text)
                }
                _ => Statement::Expression(self.expression()?),
            });
            if !self.takes(",") {
                return Ok(parts);
            }
        }
    }

    fn test(&mut self) -> Parsed<Expression> {
        self.expect("(")?;
        let test = self.expression()?;
        self.expect(")")?;
        Ok(test)
    }

    fn body(&mut self) -> Parsed<Statement> {
        self.skip_lines();
        self.statement()
    }

    /// `else`, which may be on a later line.
    fn other(&mut self) -> Parsed<Option<Box<Statement>>> {
        let start = self.at;
        self.takes(";");
        self.skip_lines();
        if self.peek() == Some(&Token::Name("else".to_owned())) {
            self.at += 1;
            return Ok(Some(Box::new(self.body()?)));
        }
        self.at = start;
        Ok(None)
    }

    fn for_loop(&mut self) -> Parsed<Statement> {
        self.expect("(")?;
        let start = self.unless(";")?;
        self.expect(";")?;
        let test = self.unless(";")?;
        self.expect(";")?;
        let step = self.unless(")")?;
        self.expect(")")?;
        Ok(Statement::For { start, test, step, body: Box::new(self.body()?) })
    }

    fn unless(&mut self, end: &str) -> Parsed<Option<Expression>> {
        if self.is(end) { Ok(None) } else { self.expression().map(Some) }
    }

    fn define(&mut self) -> Parsed<Statement> {
        let mut name = self.name()?;
        let is_void = name == "void" && !self.is("(");
        if is_void {
            name = self.name()?;
        }
        self.expect("(")?;
        let parameters = self.locals(")")?;
        self.expect(")")?;
        self.skip_lines();
        self.expect("{")?;
        while self.takes(";") || self.takes_line_end() {}
        let mut locals = Vec::new();
        while self.peek() == Some(&Token::Name("auto".to_owned())) {
            self.at += 1;
            locals.extend(self.locals(";")?);
            while self.takes(";") || self.takes_line_end() {}
        }
        let body = self.block()?;
        Ok(Statement::Define(name, Function { is_void, parameters, locals, body }))
    }

    fn locals(&mut self, end: &str) -> Parsed<Vec<Local>> {
        let mut locals = Vec::new();
        while !self.is(end) && !self.is_line_end() {
            self.takes("*");
            let name = self.name()?;
            let is_array = self.takes("[");
            if is_array {
                self.expect("]")?;
            }
            locals.push(Local { name, is_array });
            if !self.takes(",") {
                break;
            }
        }
        Ok(locals)
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error());
        }
        let mut left = self.conjunction()?;
        while self.takes("||") {
            left = binary("||", left, self.conjunction()?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Parsed<Expression> {
        let mut left = self.negation()?;
        while self.takes("&&") {
            left = binary("&&", left, self.negation()?);
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed<Expression> {
        let mut count = 0;
        while self.takes("!") {
            count += 1;
        }
        let mut value = self.comparison()?;
        for _ in 0..count {
            value = Expression::Not(Box::new(value));
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Parsed<Expression> {
        let mut left = self.sum()?;
        while let Some(operator) = self.takes_one_of(&["==", "!=", "<=", ">=", "<", ">"]) {
            left = binary(operator, left, self.sum()?);
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        let mut left = self.product()?;
        while let Some(operator) = self.takes_one_of(&["+", "-"]) {
            left = binary(operator, left, self.product()?);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Expression> {
        let mut left = self.power()?;
        while let Some(operator) = self.takes_one_of(&["*", "/", "%"]) {
            left = binary(operator, left, self.power()?);
        }
        Ok(left)
    }

    fn power(&mut self) -> Parsed<Expression> {
        let base = self.unary()?;
        if !self.takes("^") {
            return Ok(base);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error());
        }
        let exponent = self.power()?;
        self.depth -= 1;
        Ok(binary("^", base, exponent))
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let mut minus = false;
        while self.takes("-") {
            minus = !minus;
        }
        for (operator, by) in [("++", 1), ("--", -1)] {
            if self.takes(operator) {
                let place = self.primary()?;
                let place = self.place(place)?;
                return Ok(signed(minus, Expression::Step { place, by, shows_old: false }));
            }
        }
        let value = self.primary()?;
        Ok(signed(minus, self.suffix(value)?))
    }

    /// An assignment, or a step after a variable.
    fn suffix(&mut self, value: Expression) -> Parsed<Expression> {
        for (operator, by) in [("++", 1), ("--", -1)] {
            if self.is(operator) && matches!(value, Expression::Read(_)) {
                self.at += 1;
                let place = self.place(value)?;
                return Ok(Expression::Step { place, by, shows_old: true });
            }
        }
        let assignments = ["=", "+=", "-=", "*=", "/=", "%=", "^="];
        let Some(operator) = self.takes_one_of(&assignments) else {
            return Ok(value);
        };
        let place = self.place(value)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error());
        }
        let value = Box::new(self.sum()?);
        self.depth -= 1;
        let operator = operator.chars().next().filter(|first| *first != '=');
        Ok(Expression::Assign { place, operator, value })
    }

    fn place(&self, value: Expression) -> Parsed<Place> {
        match value {
            Expression::Read(place) => Ok(place),
            _ => Err(self.error()),
        }
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(Token::Number(text)) if text == "." => Ok(Expression::Read(Place::Last)),
            Some(Token::Number(text)) => Ok(Expression::Number(text)),
            Some(Token::Operator("(")) => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(Expression::InParentheses(Box::new(inner)))
            }
            Some(Token::Name(name)) => self.named(name),
            _ => {
                self.at -= 1;
                Err(self.error())
            }
        }
    }

    fn named(&mut self, name: String) -> Parsed<Expression> {
        if self.takes("(") {
            let mut arguments = Vec::new();
            while !self.is(")") {
                arguments.push(self.expression()?);
                if !self.takes(",") {
                    break;
                }
            }
            self.expect(")")?;
            return Ok(Expression::Call(name, arguments));
        }
        if self.takes("[") {
            if self.takes("]") {
                return Ok(Expression::Array(name));
            }
            let index = self.expression()?;
            self.expect("]")?;
            return Ok(Expression::Read(Place::Element(name, Box::new(index))));
        }
        Ok(Expression::Read(match name.as_str() {
            "scale" => Place::Scale,
            "ibase" => Place::InputBase,
            "obase" => Place::OutputBase,
            "last" => Place::Last,
            _ => Place::Variable(name),
        }))
    }

    fn name(&mut self) -> Parsed<String> {
        match self.peek().cloned() {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.error()),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(found)) if *found == operator)
    }

    fn is_line_end(&self) -> bool {
        matches!(self.peek(), None | Some(Token::LineEnd))
    }

    fn takes(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn takes_one_of(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        operators.iter().find(|operator| self.takes(operator)).copied()
    }

    fn takes_line_end(&mut self) -> bool {
        let found = self.peek() == Some(&Token::LineEnd);
        self.at += usize::from(found);
        found
    }

    fn skip_lines(&mut self) {
        while self.takes_line_end() {}
    }

    fn expect(&mut self, operator: &str) -> Parsed<()> {
        if self.takes(operator) { Ok(()) } else { Err(self.error()) }
    }

    fn error(&self) -> SyntaxError {
        let last = self.tokens.last().map_or(1, |(_, line)| *line);
        SyntaxError(self.tokens.get(self.at).map_or(last, |(_, line)| *line))
    }
}

fn binary(operator: &'static str, left: Expression, right: Expression) -> Expression {
    Expression::Binary(operator, Box::new(left), Box::new(right))
}

fn signed(minus: bool, value: Expression) -> Expression {
    if minus { Expression::Minus(Box::new(value)) } else { value }
}

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        let token = match c {
            '\n' => {
                chars.next();
                found.push((Token::LineEnd, line));
                line += 1;
                continue;
            }
            '0'..='9' | '.' | 'A'..='F' => Token::Number(number(&mut chars)),
            'a'..='z' => Token::Name(taken(&mut chars, |c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
            })),
            '"' => {
                chars.next();
                let text = taken(&mut chars, |c| c != '"');
                line += text.matches('\n').count();
                chars.next();
                Token::Text(text)
            }
            '#' => {
                taken(&mut chars, |c| c != '\n');
                continue;
            }
            '/' if chars.clone().nth(1) == Some('*') => {
                line += comment(&mut chars);
                continue;
            }
            ' ' | '\t' | '\r' | '\\' => {
                chars.next();
                // A backslash continues the line.
                if c == '\\' && chars.next_if_eq(&'\n').is_some() {
                    line += 1;
                }
                continue;
            }
            _ => {
                let rest: String = chars.clone().take(2).collect();
                let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
                chars.next();
                if operator.is_some_and(|operator| operator.len() == 2) {
                    chars.next();
                }
                // No statement begins with what is no operator.
                Token::Operator(operator.copied().unwrap_or("?"))
            }
        };
        found.push((token, line));
    }
    found
}

fn taken(chars: &mut Peekable<Chars<'_>>, belongs: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next_if(|c| belongs(*c)) {
        text.push(c);
    }
    text
}

/// A constant, which a backslash may continue on the next line.
fn number(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    loop {
        text += &taken(chars, |c| c.is_ascii_digit() || ('A'..='F').contains(&c));
        if chars.peek() == Some(&'.') && !text.contains('.') {
            chars.next();
            text.push('.');
        } else if chars.peek() == Some(&'\\') && chars.clone().nth(1) == Some('\n') {
            chars.next();
            chars.next();
        } else {
            return text;
        }
    }
}

/// Skips a comment, and returns the number of its lines.
fn comment(chars: &mut Peekable<Chars<'_>>) -> usize {
    let (mut lines, mut last) = (0, ' ');
    chars.next();
    chars.next();
    for c in chars.by_ref() {
        lines += usize::from(c == '\n');
        if last == '*' && c == '/' {
            break;
        }
        last = c;
    }
    lines
}
