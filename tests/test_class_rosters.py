"""Lists of students as tools and spreadsheets write them: understood, or refused by naming what was not understood."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_grader.classroom.encodings import text_of
from course_grader.classroom.roster import read_roster
from course_lib.messages import Trouble
from tests.class_kit import saved
from tests.tables import each_alone

NAMES = {  # the encoding in which a spreadsheet saves a list of such names
    "Russian": ("cp1251", "Иванов Иван|Петрова Мария|Сидоров Алексей|Кузнецова Анна|Щербаков Юрий|Мкртчян Арам"),
    "Ukrainian": ("cp1251", "Шевченко Тарас|Коваленко Олена|Бондаренко Іван|Їжакевич Євген|Мельник Ірина"),
    "Czech": ("cp1250", "Novák Jiří|Svobodová Jana|Dvořák Tomáš|Černá Lucie|Kučera Ondřej|Veselá Markéta|Březina Vít"),
    "Polish": ("cp1250", "Kowalczyk Łukasz|Wiśniewska Anna|Wójcik Paweł|Zieliński Michał|Dąbrowski Stanisław"),
    "Hungarian": ("cp1250", "Nagy László|Kovács Zsófia|Tóth Péter|Szabó Ágnes|Horváth Győző|Lőrincz Ödön|Sütő Béla"),
    "German": ("cp1252", "Müller Jörg|Schäfer Anna|Groß Sören|Weiß Käthe|Jäger Björn|Köhler Lena"),
    "French": (
        "cp1252",
        "Lefèvre Hélène|Dupont François|Martin Chloé|Bernard Thérèse|Petit Anaïs|Benoît Noël|Gérard Agnès",
    ),
    "Spanish": ("cp1252", "Muñoz José|Peña María|Núñez Íñigo|García Ángel|Gutiérrez Andrés|Ibáñez Begoña"),
    "Danish": ("cp1252", "Sørensen Søren|Jørgensen Åse|Kjær Bjørn|Nørgaard Mette|Østergaard Lærke|Møller Jens"),
    "Swedish": ("cp1252", "Åkesson Björn|Öberg Märta|Lindström Göran|Sjöberg Åsa|Nyström Håkan"),
    "Portuguese": ("cp1252", "Gonçalves João|Conceição Inês|Araújo Antônio|Simões Lúcia|Magalhães Sebastião"),
    "Turkish": ("cp1254", "Yıldız Şule|Çelik Özgür|Öztürk Gülşah|Şahin İbrahim|Yılmaz Ayşe|Doğan Uğur|Kılıç Ömer"),
    "Greek": ("cp1253", "Παπαδόπουλος Γιώργος|Αντωνίου Μαρία|Νικολάου Ελένη|Δημητρίου Κώστας"),
    "Hebrew": ("cp1255", "כהן דוד|לוי שרה|מזרחי יוסף|פרץ רחל|ביטון משה|אברהם נועה"),
    "Chinese": ("gb18030", "王 小明|李 娜|张 伟|刘 洋|陈 静|杨 帆|黄 磊|赵 丽|吴 刚|周 杰|徐 婷"),
    "Korean": ("euc_kr", "김 철수|이 영희|박 지성|최 민호|정 수빈|강 동원|조 인성"),
    "Japanese": ("cp932", "佐藤 太郎|鈴木 花子|高橋 一郎|田中 美咲|伊藤 健|渡辺 直美"),
    "Macintosh": ("mac_roman", "Müller Jörg|Schäfer Anna|Groß Sören|Weiß Käthe|Jäger Björn|Köhler Lena"),
}

OTHERS = {  # read or refused
    "Arabic": ("cp1256", "أحمد محمد|علي حسن|فاطمة خالد|يوسف إبراهيم"),
    "Thai": ("cp874", "สมชาย ใจดี|สมหญิง รักเรียน|วิชัย สุขสันต์"),
    "Taiwanese": ("big5", "陳 大文|林 志玲|黃 淑芬|張 惠妹|李 安|王 建民|吳 宗憲|劉 德華|蔡 依林"),
    "Lithuanian": ("cp1257", "Kazlauskas Jonas|Petrauskienė Rūta|Stankevičius Žygimantas|Žukauskaitė Eglė"),
    "Japanese, EUC": ("euc_jp", NAMES["Japanese"][1]),
    "Russian, KOI8": ("koi8_r", NAMES["Russian"][1]),
    "Russian, DOS": ("cp866", NAMES["Russian"][1]),
    "Russian, Macintosh": ("mac_cyrillic", NAMES["Russian"][1]),
    "German, DOS": ("cp850", NAMES["German"][1]),
    "Czech, DOS": ("cp852", NAMES["Czech"][1]),
    "Czech, ISO": ("iso8859_2", NAMES["Czech"][1]),
    "Spanish, Macintosh": ("mac_roman", NAMES["Spanish"][1]),
    "Danish, Macintosh": ("mac_roman", NAMES["Danish"][1]),
}


def table(names: list[str], end: str = "edu") -> str:
    lines = [f"s{at + 100},{name.replace(' ', ',')},s{at + 100}@uni.{end}" for at, name in enumerate(names)]
    return "\n".join(["student_id,last_name,first_name,email", *lines]) + "\n"


@pytest.mark.parametrize("language", sorted(NAMES.keys() - {"Hungarian"}))
def test_a_list_is_read_in_the_encoding_of_its_spreadsheet(tmp_path, language):
    encoding, names = NAMES[language]
    for coded in (encoding, "utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
        students = read_roster(saved(tmp_path / "r.csv", table(names.split("|")).encode(coded)))
        assert [f"{each.last_name} {each.first_name}" for each in students] == names.split("|"), coded


@given(st.sampled_from(sorted(NAMES | OTHERS)), st.data())
@settings(max_examples=150, deadline=None)
def test_a_part_of_a_list_is_never_read_wrongly(language, data):
    encoding, names = (NAMES | OTHERS)[language]
    some = data.draw(st.lists(st.sampled_from(names.split("|")), min_size=1, unique=True))
    try:
        assert text_of(table(some).encode(encoding), "r.csv") == table(some)
    except Trouble as trouble:
        assert "r.csv is not UTF-8" in trouble.problem and "UTF-8" in trouble.way_out


def test_letters_that_can_be_two_are_refused_unless_the_addresses_tell(tmp_path):
    names = NAMES["Hungarian"][1].split("|")
    with pytest.raises(Trouble, match="“Gyõzõ” .Western Europe, cp1252., “Győző” .Central Europe, cp1250."):
        read_roster(saved(tmp_path / "r.csv", table(names).encode("cp1250")))
    hungarian = read_roster(saved(tmp_path / "r.csv", table(names, "hu").encode("cp1250")))
    assert "Győző" in [each.first_name for each in hungarian]


@each_alone(
    "data, words",
    (
        "student_id,last_name\nzoe,Müller\n".encode().decode("cp1252").encode(),
        "encoded twice: 'MÃ¼ller' is probably 'Müller'",
    ),
    ("student_id,last_name\nzoe,M\ufffdller\n".encode(), "has lost letters: 'M\ufffdller'"),
    (b"PK\x03\x04rest", "is a workbook"),
    (b"student_id,last_name\nzoe,\x81\x8d\x8f\n", "encoding was not recognized"),
    ids=["encoded twice", "replaced letters", "a workbook", "noise"],
)
def test_a_file_whose_letters_are_lost_is_refused(tmp_path, data, words):
    with pytest.raises(Trouble, match=words):
        read_roster(saved(tmp_path / "r.csv", data))


# ------------------------------------------------------------------------------------------------ tools

MOODLE = {
    "en": "First name,Last name,ID number,Email address,Groups",
    "de": "Vorname,Nachname,ID-Nummer,E-Mail-Adresse,Gruppen",
    "fr": "Prénom,Nom de famille,Numéro d’identification,Adresse de courriel,Groupes",
    "es": "Nombre,Apellido(s),Número de ID,Dirección de correo,Grupos",
    "it": "Nome,Cognome,Codice identificativo,Indirizzo email,Gruppi",
    "pt": "Nome,Apelido,Número de identificação,Endereço de e-mail,Grupos",
    "pt_br": "Nome,Sobrenome,Número de identificação,Endereço de email,Grupos",
    "nl": "Voornaam,Achternaam,ID-nummer,E-mailadres,Groepen",
    "pl": "Imię,Nazwisko,Numer ID,Adres e-mail,Grupy",
    "cs": "Křestní jméno,Příjmení,Identifikační číslo,E-mailová adresa,Skupiny",
    "ru": "Имя,Фамилия,Индивидуальный номер,Адрес электронной почты,Группы",
    "sv": "Förnamn,Efternamn,ID-nummer,E-postadress,Grupper",
    "zh": "名,姓,ID号,电子邮件地址,小组",
}


@pytest.mark.parametrize("language", MOODLE)
def test_moodles_participants_are_read_in_its_languages(tmp_path, language):
    text = f"{MOODLE[language]}\nZoë,Núñez,m77,zoe@u.org,A\n"
    (zoe,) = read_roster(saved(tmp_path / "r.csv", text.encode()))
    assert (zoe.id, zoe.first_name, zoe.last_name, zoe.email, zoe.section) == ("m77", "Zoë", "Núñez", "zoe@u.org", "A")


TOOLS = {
    "Blackboard": (
        '"Last Name"\t"First Name"\t"Username"\t"Student ID"\t"Last Access"\t"Availability"\n'
        '"Núñez"\t"Zoë"\t"zoe"\t""\t"2026-10-12 10:00:00"\t"Yes"\n'
        '"_PreviewUser"\t"Ada"\t"ada_previewuser"\t""\t""\t"Yes"\n'
    ).encode("utf-16"),
    "D2L": b"OrgDefinedId,Username,Last Name,First Name,Email,Role,End-of-Line Indicator\n"
    + "#77,#zoe,Núñez,Zoë,zoe@u.org,Student,#\n#78,#ted,Teach,Ted,ted@u.org,Instructor,#\n".encode(),
    "Gradescope": "First Name,Last Name,SID,Email,Role\nZoë,Núñez,zoe,zoe@u.org,Student\nTed,T,9,t@u.org,TA\n".encode(),
    "GitHub Classroom": 'identifier,github_username,github_id,name\n"zoe@u.org","zoe-n","5","Zoë Núñez"\n'.encode(),
    "GitHub Classroom, names": 'identifier,github_username,github_id,name\n"Zoë Núñez","zoe","5",""\n'.encode(),
    "Moodle with roles": "First name,Last name,Username,Email address,Roles\nZoë,Núñez,zoe,zoe@u.org,Student\n"
    "Ted,T,ted,t@u.org,Non-editing teacher\n".encode(),
    "Canvas": 'Student,ID,SIS User ID,SIS Login ID,Section\n"Núñez, Zoë",1004,u4,zoe,A\n'
    '"Student, Test",9,,x,A\n'.encode(),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tools_list_gives_the_same_student_and_nobody_else(tmp_path, tool):
    (zoe,) = read_roster(saved(tmp_path / "r.csv", TOOLS[tool]))
    assert (zoe.id, zoe.first_name, zoe.last_name) == ("zoe", "Zoë", "Núñez")


def test_a_list_of_identifiers_alone_is_a_list_of_ids(tmp_path):
    students = read_roster(saved(tmp_path / "r.csv", b"identifier\nada\nzoe@u.org\n"))
    assert [(each.id, each.email) for each in students] == [("ada", ""), ("zoe", "zoe@u.org")]


@each_alone(
    "text, words",
    (
        "Etunimi,Sukunimi,Username\nAda,Lovelace,ada\nZoë,Núñez,zoe\n",
        "not understood and may hold names or addresses: etunimi, sukunimi",
    ),
    ("student_id,first_name,last_name,Sähköposti\nada,Ada,Lovelace,ada@u.org\n", "addresses: sähköposti"),
    ("student_id,name,role\nada,Ada L,Student\nbob,Bob B,Zauberer\n", "line 3: the role 'Zauberer' was not understood"),
    ("name,student_id\nLovelace, Ada,ada\n", "line 2 has 3 cells where the header has 2"),
    (
        "student_id,name\nada,A\n1.23E+08,B\n",
        "line 3: '1.23E[+]08' in the column 'student_id' is a number with a power of ten",
    ),
    ('student_id,name\n\nada,A\n1,"2,3E+09"\n', "a number with a power of ten"),
    ("student_id;name\nada;A\n2026-03-04;B\n", "'2026-03-04' in the column 'student_id' is a date"),
    ("student_id,name\nada,A\nMar-03,B\n", "'Mar-03' .* is a date"),
    ("student_id,name\nada,A\n1001.0,B\n", "'1001.0' .* is a number with separators"),
    (
        "student_id,name\n" + "".join(f"{number},N\n" for number in (1234567, 7654321, 4567890, 12345)),
        "line 5: '12345' .* lost zeros",
    ),
    ("student_id,name,email\n12345,A,0012345@u.org\n", "lost zeros"),
    ("name,role\nTed T,Teacher\n", "lists no students"),
)
def test_what_was_not_understood_is_named(tmp_path, text, words):
    if "2,3E" in text:
        text = text.replace('1,"2,3E+09"', '"2,3E+09",B')
    with pytest.raises(Trouble, match=words):
        read_roster(saved(tmp_path / "r.csv", text.encode()))


def test_numbers_in_the_classs_own_file_are_as_somebody_wants_them(tmp_path):
    text = b"student_id,first_name\n" + b"".join(b"%d,N\n" % number for number in (1234567, 7654321, 4567890, 12345))
    assert len(read_roster(saved(tmp_path / "roster.csv", text), ours=True)) == 4
